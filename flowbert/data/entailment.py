"""Entailment as a task: labelled pairs to train a classifier on, to choose its penalty on, and to test it on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from flowbert.data.hub import hub_name
from flowbert.data.nli import BUILTIN, LABELS, NLIData, load_nli
from flowbert.data.pair_files import sick_tables
from flowbert.data.readers import TABLES
from flowbert.data.sample import SPLITS
from flowbert.data.sts import SAMPLE, is_table
from flowbert.data.table import Table
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream

_SICK = "SICKR"
_SICK_LABELS = "entailment_judgment"
_HELD_OUT = 0.1  # of the premises, for each of dev and test
_LEAST_PREMISES = 10


@dataclass(frozen=True, eq=False)
class EntailmentTask:
    """Labelled pairs by split: ``train``, ``dev``, ``test``; none is empty, and ``train`` has two labels or more."""

    name: str
    splits: Mapping[str, NLIData]

    def sentences(self, splits: Sequence[str] = SPLITS) -> list[str]:
        """Every occurrence of every sentence: by split, premises before hypotheses, as :class:`STSTask` has them."""
        chosen = [self.splits[split] for split in splits]
        return [text for data in chosen for texts in (data.premises, data.hypotheses) for text in texts]


def load_entailment(source: str, senteval: str | Path | None = None) -> EntailmentTask:
    """Load labelled pairs with their splits.

    SICK has splits of its own. NLI pairs from one file, or of the sample, are parted by premise: a tenth of the
    premises each for ``dev`` and ``test``, drawn with seed 0 from the sorted premises, so that no premise is in two
    splits and the order of the file plays no role.

    Args:
        source: ``SICKR`` (its column ``entailment_judgment``), ``SAMPLE`` (the built-in NLI pairs), or a file of NLI
            pairs, as in :func:`flowbert.data.nli.load_nli`.
        senteval: Folder laid out as SentEval's ``data/downstream``, for SICKR.

    Raises:
        UserError: If the source is unknown or bad, or has too few premises or labels.

    Example:
        >>> task = load_entailment("SAMPLE")
        >>> {split: len(data) for split, data in task.splits.items()}
        {'train': 9600, 'dev': 1200, 'test': 1200}
    """
    if source == SAMPLE:
        return _task(SAMPLE, _parted(load_nli(BUILTIN), SAMPLE), SAMPLE)
    if is_table(source):
        name = Path(source).name.split(".")[0]
        return _task(name, _parted(load_nli(source), source), source)
    if source != _SICK:
        allowed = choices((_SICK, SAMPLE), source.upper().replace("-", ""))
        raise UserError(
            f"no entailment labels of a task {source!r}; {allowed}, or a file of NLI pairs ({', '.join(TABLES)})"
        )
    if senteval is None or hub_name(str(senteval)) is not None:
        received = "no folder" if senteval is None else f"{str(senteval)!r}, where SICKR has relatedness scores alone"
        raise UserError(f"senteval: received {received}; allowed for entailment labels of SICKR: a SentEval folder")
    tables = sick_tables(Path(senteval).expanduser(), _SICK_LABELS)
    return _task(_SICK, {split: _sick_pairs(table) for split, table in tables.items()}, str(tables["train"].path))


def _task(name: str, splits: Mapping[str, NLIData], where: str) -> EntailmentTask:
    found = set(splits["train"].labels)
    if len(found) < 2:
        raise UserError(
            f"{where}: all labels to train on are {found.pop()}; allowed: at least two of {', '.join(LABELS)}"
        )
    return EntailmentTask(name, splits)


def _sick_pairs(table: Table) -> NLIData:
    """Pairs of one file of SICK, its labels in lower case."""
    if not len(table):
        raise UserError(f"{table.path}: no pair, only a header; allowed: at least one")
    first, second, label = table.columns
    labels = tuple(_sick_label(value, table.where(row)) for row, value in enumerate(table.texts(label)))
    return NLIData(table.sentences(first), table.sentences(second), labels)


def _sick_label(value: str, where: str) -> str:
    name = value.strip().lower()
    if name not in LABELS:
        raise UserError(f"{where}: {_SICK_LABELS} is {value!r}; {choices(map(str.upper, LABELS), value.upper())}")
    return name


def _parted(data: NLIData, where: str) -> dict[str, NLIData]:
    """Pairs by split, all pairs of a premise in one."""
    premises = sorted(set(data.premises))
    if len(premises) < _LEAST_PREMISES:
        raise UserError(
            f"{where}: {len(premises)} different premises; allowed: at least {_LEAST_PREMISES}, for three splits"
        )
    held_out = round(_HELD_OUT * len(premises))
    drawn = Stream(0, "split", of="premises").rng().permutation(len(premises))
    numbers = {premises[row]: number for number, row in enumerate(drawn)}
    split_of = [min(numbers[premise] // held_out, 2) for premise in data.premises]
    places = {"train": 2, "dev": 1, "test": 0}
    found = {}
    for split, place in places.items():
        chosen = [number == place for number in split_of]
        found[split] = NLIData(*(tuple(compress(column, chosen)) for column in data.columns))
    return found
