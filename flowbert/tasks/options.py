"""How tasks are read and measured: one set of options for every kind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flowbert.data.sts import STSTask, load_task


@dataclass(frozen=True, eq=False)
class TaskOptions:
    """Options of :func:`flowbert.tasks.load_tasks`; each kind of task takes those that concern it.

    Attributes:
        senteval: Where the tasks' data are, as in :func:`flowbert.load_task`.
        splits: Splits to measure on.
        columns: Columns of files of own pairs; None for sentence1, sentence2, score.
        score_range: Lowest and highest score in such files.
        positive_above: Gold score above which a pair is positive: alignment, retrieval.
        uniformity_limit: Draw this many distinct sentences for the uniformity if there are more; None takes all.
        unit: Unit of edit distances: ``words`` or ``characters``.
        vectors: How many vectors there are, if files hold their row numbers in place of sentences; else None.
    """

    senteval: str | Path | None = None
    splits: Sequence[str] = ("test",)
    columns: Sequence[str] | None = None
    score_range: tuple[float, float] | None = None
    positive_above: float = 4.0
    uniformity_limit: int | None = None
    unit: str = "words"
    vectors: int | None = None
    _loaded: dict[str, STSTask] = field(default_factory=dict, init=False, repr=False)

    def pairs_of(self, source: str) -> list[tuple[STSTask, str]]:
        """Sentence pairs by task name or file, with each split asked for that they have; read once.

        Raises:
            UserError: If they cannot be read, or have none of the splits; they may lack some of several.
        """
        if source not in self._loaded:
            self._loaded[source] = load_task(
                source, self.senteval, columns=self.columns, score_range=self.score_range, vectors=self.vectors
            )
        task = self._loaded[source]
        found = [split for split in self.splits if split in task.splits]
        if not found:
            task.split(self.splits[0])  # says which there are
        return [(task, split) for split in found]
