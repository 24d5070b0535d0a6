"""What is fitted on and what is measured on: one set of options for every data module."""

from collections.abc import Sequence
from dataclasses import dataclass

from flowbert.data.corpus import Corpus, load_corpus
from flowbert.data.files import as_list
from flowbert.data.sts import SAMPLE, STSTask, load_task
from flowbert.training.limits import check_limits


@dataclass(frozen=True)
class CorpusOptions:
    """What is fitted on and what is measured on.

    Args:
        corpus: What to fit on: ``target`` (all splits of the first task, labels unused), ``train_only`` (its train
            split), ``nli``, ``builtin-sample``, a text file (a sentence a line), a table with ``column``, several of
            them comma-separated or as a glob, or ``hub:NAME`` (``hub:NAME?config=C&split=S&data_files=F``).
        tasks: STS tasks to evaluate on, a list or comma-separated: STS12..STS16, STSB, SICKR, or SAMPLE.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``; not needed for SAMPLE.
        nli: Where NLI pairs are: ``hub``, ``builtin-sample``, or jsonl/csv/tsv/parquet files.
        column: Column of the sentences when ``corpus`` is a table.
        max_sentences: Fit on a random subset of this many sentences, pairs or triples; default: all.
        drop_overlap: Leave out labelled training pairs that the evaluation measures; else they are refused.
        store_dir: Folder of the disk store of embeddings; default: $FLOWBERT_CACHE or ~/.cache/flowbert.

    Raises:
        UserError: If ``max_sentences`` is below 2, or there is no task.

    Example:
        >>> options = CorpusOptions("train_only", tasks="SAMPLE")
        >>> [task.name for task in options.load_tasks()], len(options.load_corpus())
        (['SAMPLE'], 6000)
    """

    corpus: str = "target"
    tasks: str | Sequence[str] = SAMPLE
    senteval: str | None = None
    nli: str = "hub"
    column: str | None = None
    max_sentences: int | None = None
    drop_overlap: bool = False
    store_dir: str | None = None

    def __post_init__(self) -> None:
        check_limits(max_sentences=self.max_sentences)
        as_list(self.tasks, "tasks")  # there is one, and it shows early

    @property
    def task_names(self) -> list[str]:
        """Names of the tasks, each once; the first one's sentences are ``target``."""
        return as_list(self.tasks, "tasks")

    def load_tasks(self) -> list[STSTask]:
        """The tasks.

        Raises:
            UserError: If one is unknown, or its files are not there or bad.
        """
        return [load_task(name, self.senteval) for name in self.task_names]

    def load_corpus(self) -> Corpus:
        """The whole corpus.

        Raises:
            UserError: If it is not there or bad.
        """
        task = self.task_names[0]
        return load_corpus(self.corpus, task=task, senteval=self.senteval, nli=self.nli, column=self.column)
