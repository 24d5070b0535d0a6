"""The sentences a calibration or a flow is fitted on."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flowbert.data.files import expand_files
from flowbert.data.hub import hub_name, hub_options, read_hub
from flowbert.data.nli import BUILTIN, load_nli
from flowbert.data.readers import FORMATS, file_format, read_table
from flowbert.data.sample import sample_corpus
from flowbert.data.sts import SAMPLE, STSTask, load_task
from flowbert.data.table import Table
from flowbert.errors import UserError, choices
from flowbert.io.digest import digest_chunks
from flowbert.seeding import Stream

NAMED = ("target", "train_only", "nli")
_WITH_TRAIN = ("STSB", "SICKR", SAMPLE)


@dataclass(frozen=True)
class Corpus:
    """Sentences in order, every occurrence kept: a sentence that occurs twice counts twice in a fit.

    Args:
        name: What it is, for tables and results: ``target``, ``nli``, or the source as given.
        sentences: All occurrences.
        blank: Blank lines dropped.
        duplicates: Occurrences beyond the first of each sentence.
        digest: BLAKE2b of the sentences in order, hexadecimal.
    """

    name: str
    sentences: tuple[str, ...]
    blank: int
    duplicates: int
    digest: str

    @classmethod
    def of(cls, name: str, sentences: Iterable[str], blank: int = 0) -> "Corpus":
        """Build a corpus: blank sentences are dropped and counted, duplicates counted, the digest computed."""
        given = tuple(sentences)
        filled = tuple(sentence for sentence in given if sentence.strip())
        blanks, repeated = len(given) - len(filled), len(filled) - len(set(filled))
        return cls(name, filled, blank + blanks, repeated, sentences_digest(filled))

    def sample(self, size: int, seed: int) -> "Corpus":
        """At most ``size`` occurrences, drawn without replacement by ``seed``, in their old order."""
        if size >= len(self.sentences):
            return self
        chosen = sorted(Stream(seed, "subset").python().sample(range(len(self.sentences)), size))
        return Corpus.of(self.name, (self.sentences[i] for i in chosen), self.blank)

    def __len__(self) -> int:
        return len(self.sentences)


def sentences_digest(sentences: Iterable[str]) -> str:
    """BLAKE2b (128 bits, hexadecimal) of sentences in order, each with its length, so that no two lists look alike."""
    return digest_chunks(len(data).to_bytes(8, "little") + data for data in map(str.encode, sentences))


def read_sentences(source: str | Path, column: str | None = None) -> Corpus:
    """Sentences of text files (one a line) or of a column of table files, outer white space removed.

    Args:
        source: A path, a glob, or a comma-separated list of them; kinds may be mixed.
        column: Column of the table files; may be left out where a file has only one.

    Raises:
        UserError: If a file is missing or bad, a table's column is not named, or there is no sentence at all.
    """

    def layouts(path: Path) -> list[list[str]]:
        return [[column]] if column is not None and FORMATS[file_format(path)].columns else []

    return _column(str(source), (read_table(path, *layouts(path)) for path in expand_files(source)))


def _column(name: str, tables: Iterable[Table]) -> Corpus:
    """The sentences of the only column of each table."""
    texts: list[str] = []
    blank = 0
    for table in tables:
        (column,) = table.columns
        texts += map(str.strip, table.texts(column))
        blank += table.blank
    corpus = Corpus.of(name, texts, blank)
    if not corpus.sentences:
        raise UserError(f"{name}: no sentence, only {corpus.blank} blank lines")
    return corpus


def load_corpus(
    corpus: str,
    *,
    task: str | None = None,
    senteval: str | Path | None = None,
    nli: str = "hub",
    column: str | None = None,
) -> Corpus:
    """Load what to fit on.

    Args:
        corpus: ``target`` (all splits of ``task``, labels unused, every occurrence), ``train_only`` (its train split),
            ``nli`` (premises and hypotheses of ``nli``), ``builtin-sample`` (the sample corpus), files (a path, a glob,
            or a list with commas), or ``hub:NAME`` (a hub data set or a local folder in the same layout), with options
            as in ``hub:NAME?config=C&split=S&revision=R`` and ``hub:NAME?data_files=wiki1m_for_simcse.txt``.
        task: Task for ``target`` and ``train_only``.
        senteval: Where the task's data are, as in :func:`flowbert.load_task`.
        nli: Where the NLI pairs are, as in :func:`flowbert.data.nli.load_nli`.
        column: Column of table files or of the hub data set.

    Raises:
        UserError: If the source is not there or is bad, or the task lacks a train split.

    Example:
        >>> corpus = load_corpus("target", task="SAMPLE")
        >>> corpus.name, len(corpus)
        ('target', 9500)
    """
    if corpus in ("target", "train_only"):
        if task is None:
            raise UserError(
                f"corpus: received {corpus!r} without a task; allowed: with one, or files, hub:NAME, nli, {BUILTIN}"
            )
        return corpus_of_task(corpus, load_task(task, senteval))
    if corpus == "nli":
        data = load_nli(nli)
        return Corpus.of("nli", [*data.premises, *data.hypotheses])
    if corpus == BUILTIN:
        return Corpus.of(corpus, sample_corpus())
    if hub_name(corpus) is not None:
        name, options = hub_options(corpus)
        return _column(corpus, [read_hub(name, [] if column is None else [[column]], **options)])
    if not any(mark in corpus for mark in "./\\*?[,") and not Path(corpus).exists():
        raise UserError(f"corpus: received {corpus!r}; {choices((*NAMED, BUILTIN), corpus)}, hub:NAME, or files")
    return read_sentences(corpus, column)


def corpus_of_task(corpus: str, task: STSTask) -> Corpus:
    """The corpus ``target`` or ``train_only`` of a task.

    Raises:
        UserError: If the task lacks a train split.
    """
    if corpus == "target":
        return Corpus.of(corpus, task.sentences())
    if "train" not in task.splits:
        raise UserError(
            f"corpus: received 'train_only'; task {task.name} has no train split, only {', '.join(task.splits)}; "
            f"allowed: {', '.join(_WITH_TRAIN)}"
        )
    return Corpus.of(corpus, task.sentences(["train"]))
