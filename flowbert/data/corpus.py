"""The sentences that a map or a flow is fitted on."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from flowbert.data.files import expand_files, read_lines
from flowbert.data.hub import hub_name, hub_options, read_hub
from flowbert.data.nli import BUILTIN, load_nli
from flowbert.data.sample import sample_corpus
from flowbert.data.sts import load_sts
from flowbert.data.tables import Row, read_table
from flowbert.errors import UserError, choices
from flowbert.io import sentences_digest
from flowbert.seeding import Stream

NAMED = ("target", "train_only", "nli", BUILTIN)


@dataclass(frozen=True)
class Corpus:
    """Sentences in order; a sentence that occurs twice counts twice in a fit.

    Args:
        name: Name for tables and results: ``target``, ``nli``, or the source as given.
        sentences: All occurrences.
        blank: Number of blank sentences that were left out.
    """

    name: str
    sentences: tuple[str, ...]
    blank: int = 0

    @classmethod
    def of(cls, name: str, sentences: Iterable[str]) -> "Corpus":
        """A corpus of the sentences that are not blank."""
        received = list(sentences)
        kept = tuple(sentence for sentence in received if sentence.strip())
        return cls(name, kept, len(received) - len(kept))

    @cached_property
    def digest(self) -> str:
        """BLAKE2b of the sentences in order, hexadecimal."""
        return sentences_digest(self.sentences)

    def sample(self, size: int, seed: int) -> "Corpus":
        """At most ``size`` occurrences, drawn without replacement, in their order."""
        if size < 1:
            raise UserError(f"max_sentences: received {size}; expected 1 or more")
        if size >= len(self):
            return self
        drawn = Stream(seed, "subset").python().sample(range(len(self)), size)
        return Corpus(
            self.name, tuple(self.sentences[index] for index in sorted(drawn))
        )

    def __len__(self) -> int:
        return len(self.sentences)


def load_corpus(
    name: str,
    *,
    task: str | None = None,
    senteval: str | Path | None = None,
    nli: str = "hub",
    column: str | None = None,
) -> Corpus:
    """Load what to fit on.

    Args:
        name: ``target`` (all splits of ``task``, every occurrence, labels unused), ``train_only``
            (its train split), ``nli`` (premises and hypotheses of ``nli``), ``builtin-sample``,
            files (a path, a glob, or a list with commas; text files have one sentence per line), or
            ``hub:NAME?config=C&split=S&revision=R&data_files=F`` (options as needed) for a hub data
            set or a local folder in the same layout.
        task: Task of ``target`` and ``train_only``.
        senteval: Data of the task, as in :func:`flowbert.data.sts.load_sts`.
        nli: NLI pairs, as in :func:`flowbert.data.nli.load_nli`.
        column: Column of table files and hub data sets; not needed where there is only one.

    Raises:
        UserError: If the source is unknown, missing or damaged, or holds no sentence.

    Example:
        >>> len(load_corpus("target", task="SAMPLE"))
        9500
    """
    sentences: list[str] = []
    layouts = [] if column is None else [[column]]
    if name in ("target", "train_only"):
        if task is None:
            raise UserError(
                f"corpus: received {name!r} without a task; expected one, or files"
            )
        splits = ["train"] if name == "train_only" else None
        sentences = load_sts(task, senteval).sentences(splits)
    elif name == "nli":
        data = load_nli(nli)
        sentences = [*data.premises, *data.hypotheses]
    elif name == BUILTIN:
        sentences = list(sample_corpus())
    elif hub_name(name) is not None:
        source, options = hub_options(name)
        sentences = _texts(read_hub(source, *layouts, **options))
    elif any(mark in name for mark in "./\\*?[,") or Path(name).exists():
        for path in expand_files(name):
            if path.name.lower().endswith((".txt", ".txt.gz")):
                sentences += [line.strip() for line in read_lines(path)]
            else:
                sentences += _texts(read_table(path, *layouts))
    else:
        raise UserError(
            f"corpus: received {name!r}; {choices(NAMED, name)}, hub:NAME, or files"
        )
    corpus = Corpus.of(name, sentences)
    if not len(corpus):
        raise UserError(f"{name}: has blank lines only; expected sentences")
    return corpus


def _texts(rows: list[Row]) -> list[str]:
    """Values of the only column."""
    return [row.text(column) for row in rows for column in row.values]
