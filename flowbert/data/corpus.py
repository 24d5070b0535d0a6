"""Corpora: sentences that a map or a flow is fitted on, from files or in memory."""

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flowbert.data.hub import hub_name, read_hub
from flowbert.data.sample import BUILTIN, sample_corpus
from flowbert.data.text_files import as_sentences, expand_files, extension, read_lines
from flowbert.errors import UserError, choices
from flowbert.io import sentences_digest
from flowbert.options import IN_MEMORY
from flowbert.seeding import Stream

NAMED = ("target", "train_only", "nli", BUILTIN)

OWN_NAMES = {"target": "{} sentences", "train_only": "{} train sentences"}
"""Corpora that depend on the task: names of their sentences in results."""


@dataclass(frozen=True)
class Corpus:
    """Sentences in order; a sentence that occurs twice counts twice in a fit.

    Args:
        name: Name for tables and results: ``target`` (the sentences of each task), ``STSB
            sentences``, ``nli``, or the source.
        sentences: All sentences, with repetitions.
        blank: Number of blank sentences that were left out.
        starts: Indices of the first sentences of documents; None if the sentences are not
            consecutive.
    """

    name: str
    sentences: tuple[str, ...]
    blank: int = 0
    starts: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        first = reprlib.repr("".join(self.sentences[:1]))
        return f"Corpus({self.name}, {len(self)} sentences, {first}, ...)"

    @classmethod
    def of(
        cls, name: str, *texts: Iterable[str], consecutive: bool = False
    ) -> "Corpus":
        """Make a corpus of texts, without blank sentences.

        Args:
            name: Name for tables and results.
            *texts: The sentences.
            consecutive: Whether the sentences of a text follow each other; a blank one ends a
                document.

        Example:
            >>> corpus = Corpus.of("two", ["a", "b", "", "c"], ["d"], consecutive=True)
            >>> corpus.sentences, corpus.blank, corpus.starts
            (('a', 'b', 'c', 'd'), 1, (0, 2, 3))
        """
        sentences: list[str] = []
        starts: list[int] = []
        blank = 0
        for text in texts:
            begins = True
            for sentence in text:
                if is_blank := not sentence.strip():
                    blank += 1
                else:
                    if begins:
                        starts.append(len(sentences))
                    sentences.append(sentence)
                begins = is_blank
        return cls(
            name, tuple(sentences), blank, tuple(starts) if consecutive else None
        )

    def consecutive(self) -> list[int]:
        """Indices of the sentences that are not the last of their document.

        Raises:
            UserError: If no sentence follows another, or the sentences are not consecutive.
        """
        starts = range(len(self)) if self.starts is None else set(self.starts)
        numbers = [index - 1 for index in range(1, len(self)) if index not in starts]
        if not numbers:
            raise UserError(
                f"received {self.name!r}, in which no sentence follows another one; "
                "expected files of texts, with a blank line between documents",
                argument="corpus",
            )
        return numbers

    @cached_property
    def digest(self) -> str:
        """BLAKE2b of the sentences in order, hexadecimal."""
        return sentences_digest(self.sentences)

    def describe(self) -> dict[str, Any]:
        """Name, number of sentences and digest."""
        return {"name": self.name, "sentences": len(self), "digest": self.digest}

    def sample(self, size: int, seed: int) -> "Corpus":
        """At most ``size`` sentences, drawn without replacement, in their order."""
        drawn = draw_indices(len(self), size, seed)
        if len(drawn) == len(self):
            return self
        return Corpus(self.name, tuple(self.sentences[index] for index in drawn))

    def __len__(self) -> int:
        return len(self.sentences)


def draw_indices(count: int, size: int, seed: int) -> Sequence[int]:
    """At most ``size`` of ``count`` indices, drawn without replacement, in increasing order."""
    if size >= count:
        return range(count)
    return sorted(Stream(seed, "subset").python().sample(range(count), size))


def load_corpus(source: Any, *, nli: str = "hub", column: str | None = None) -> Corpus:
    """Load the corpus that a method is fitted on.

    The sentences of a task are ``load_task(NAME).corpus("target")``.

    Args:
        source: ``nli`` (premises and hypotheses of the option ``nli``); ``builtin-sample``; files
            (a path, a glob, or several separated by commas): tables, or text files, ending in
            ``.txt`` or without an extension, with one sentence per line; or
            ``hub:NAME?config=C&split=S&revision=R&data_files=F`` (options as needed) for a hub data
            set or a local folder in the same layout. A ``Path`` is one file, even with commas in
            its name. In memory: a list of sentences, a pandas Series or DataFrame, a
            ``datasets.Dataset``, or a Corpus.
        nli: NLI pairs, as in :func:`flowbert.data.nli.load_nli`.
        column: Column of tables; optional if there is only one.

    Raises:
        UserError: If the source is unknown, missing, damaged or without sentences.

    Example:
        >>> load_corpus(["A dog runs.", "A cat sleeps."]).sentences
        ('A dog runs.', 'A cat sleeps.')
    """
    if isinstance(source, Corpus):
        return source
    layouts = [] if column is None else [[column]]
    if isinstance(source, Path):
        corpus = _load_files(source, layouts)
    elif isinstance(source, str):
        corpus = _load_named(source, nli, layouts)
    else:
        texts = _texts_in_memory(source, layouts)
        corpus = Corpus.of(IN_MEMORY, texts, consecutive=True)
    if not len(corpus):
        raise UserError(
            f"{corpus.name}: has no sentence, or blank ones only; expected some"
        )
    return corpus


def check_corpus_exists(source: str | Path) -> None:
    """Check that the files of a corpus exist; they are not read.

    Raises:
        UserError: If one is missing, or the name is unknown.
    """
    name = str(source)
    if name in NAMED or hub_name(name) is not None:
        return
    if not any(mark in name for mark in "./\\*?[,") and not Path(name).exists():
        raise UserError(
            argument="corpus",
            received=name,
            expected=f"{choices(NAMED, name)}, hub:NAME, or files",
        )
    expand_files(source)


def _texts_in_memory(source: Any, layouts: Sequence[Sequence[str]]) -> list[str]:
    """Sentences of a list, array, Series, DataFrame or Dataset."""
    import pandas as pd  # slow to import

    from flowbert.data.tables import choose_columns

    if isinstance(source, pd.DataFrame):
        source = source.rename(columns=str)
    names = getattr(source, "column_names", getattr(source, "columns", None))
    if names is not None and not isinstance(names, dict):  # as of a DatasetDict
        (column,) = choose_columns(list(names), layouts, Path("corpus"))
        source = source[column]
    texts = as_sentences(source, "corpus")
    if named := set(NAMED).intersection(texts):
        expected = f"sentences, or a dict of several corpora such as {min(named)}"
        raise UserError(argument="corpus", received=texts, expected=expected)
    return [text.strip() for text in texts]


def _load_named(name: str, nli: str, layouts: Sequence[Sequence[str]]) -> Corpus:
    """Load a corpus by its name, from the hub, or from files."""
    if name in OWN_NAMES:
        raise UserError(
            f"received {name!r} without a task; expected one, or files",
            argument="corpus",
        )
    if name == "nli":
        from flowbert.data.nli import load_nli

        data = load_nli(nli)
        return Corpus.of(name, [*data.premises, *data.hypotheses])
    if name == BUILTIN:
        return Corpus.of(name, sample_corpus())
    if (hub := hub_name(name)) is not None:
        from flowbert.data.tables import read_texts

        rows = read_hub(hub, *layouts)
        return Corpus.of(name, read_texts(rows), consecutive=True)
    check_corpus_exists(name)
    return _load_files(name, layouts)


def _load_files(spec: str | Path, layouts: Sequence[Sequence[str]]) -> Corpus:
    """Read the sentences of text files and tables."""
    texts = []
    for path in expand_files(spec):
        if extension(path) in ("", ".txt"):  # pipes have no extension
            texts.append([line.strip() for line in read_lines(path)])
            continue
        from flowbert.data.tables import TABLE_FORMATS, read_frame, read_texts

        if extension(path) not in TABLE_FORMATS:
            known = choices([".txt", *TABLE_FORMATS], path.suffix)
            raise UserError(f"{path}: received {path.suffix!r}; expected {known}")
        texts.append(read_texts(read_frame(path, *layouts)))
    return Corpus.of(str(spec), *texts, consecutive=True)
