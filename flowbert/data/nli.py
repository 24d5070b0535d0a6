"""Natural language inference pairs: premise, hypothesis, and whether the one entails or contradicts the other."""

from dataclasses import dataclass, field
from itertools import chain

from flowbert.data.files import expand_files
from flowbert.data.hub import hub_name, read_hub
from flowbert.data.readers import read_table
from flowbert.data.sample import sample_nli
from flowbert.data.table import Table
from flowbert.errors import UserError, choices

LABELS = ("entailment", "neutral", "contradiction")
BUILTIN = "builtin-sample"
_MEANING: dict[str, str | None] = {name: name for name in LABELS}
_MEANING |= {str(number): name for number, name in enumerate(LABELS)} | {"-1": None, "-": None}
_HUB_DEFAULT = ("stanfordnlp/snli", "nyu-mll/multi_nli")
_LAYOUT = ("premise", "hypothesis", "label")
_TRIPLES = ("sent0", "sent1", "hard_neg")
_FILE_LAYOUTS = (_TRIPLES, _LAYOUT, ("sentence1", "sentence2", "gold_label"))


@dataclass(frozen=True)
class NLIData:
    """Labelled pairs.

    Args:
        premises: First sentences, N of them.
        hypotheses: Second sentences, N of them.
        labels: N of ``entailment``, ``neutral``, ``contradiction``.
        unlabelled: Pairs dropped because they have no gold label.
    """

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: tuple[str, ...]
    unlabelled: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Premises, hypotheses, labels."""
        return self.premises, self.hypotheses, self.labels

    def triples(self) -> list[tuple[str, str, str]]:
        """(premise, entailment, contradiction) of every premise that has both.

        A premise's i-th entailment goes with its i-th contradiction; what is left over on one side is not used.
        Premises come in the order of their first pair.
        """
        groups: dict[str, dict[str, list[str]]] = {}
        for premise, hypothesis, label in zip(*self.columns, strict=True):
            groups.setdefault(premise, {name: [] for name in LABELS})[label].append(hypothesis)
        return [
            (premise, entailed, contradicted)
            for premise, group in groups.items()
            for entailed, contradicted in zip(group["entailment"], group["contradiction"], strict=False)
        ]


def load_nli(source: str) -> NLIData:
    """Load NLI pairs.

    Args:
        source: ``builtin-sample``; ``hub`` (the train splits of SNLI and MNLI); ``hub:NAME`` (train split of a hub data
            set or of a local folder in the same layout); or files (a path, a glob, a list with commas) of jsonl, csv,
            tsv or parquet with the columns premise, hypothesis, label, or SNLI's own sentence1, sentence2, gold_label,
            or SimCSE's sent0, sent1, hard_neg. A label is a name of ``LABELS`` or its index 0, 1, 2; ``-1`` and ``-``
            mean that the pair has no gold label: it is dropped and counted.

    Raises:
        UserError: If the source is not there, lacks the columns, or has an unknown label or an empty sentence.

    Example:
        >>> data = load_nli("builtin-sample")
        >>> len(data), len(data.triples())
        (12000, 4000)
    """
    if source == BUILTIN:
        return NLIData(*zip(*sample_nli(), strict=True))
    hub = hub_name(source)
    if hub is None:
        tables = [read_table(path, *_FILE_LAYOUTS) for path in expand_files(source)]
    else:
        tables = [read_hub(name, [_LAYOUT]) for name in ([hub] if hub else _HUB_DEFAULT)]
    data = [_pairs(table) for table in tables]
    unlabelled = sum(part.unlabelled for part in data)
    if not any(data):
        raise UserError(f"{source}: no labelled pair, only {unlabelled} without a gold label")
    premises, hypotheses, labels = (
        tuple(chain.from_iterable(columns)) for columns in zip(*(part.columns for part in data), strict=True)
    )
    return NLIData(premises, hypotheses, labels, unlabelled=unlabelled)


def _pairs(table: Table) -> NLIData:
    """Labelled pairs of one file."""
    if tuple(table.columns) == _TRIPLES:
        anchors, positives, negatives = map(table.stripped, _TRIPLES)
        labels = ("entailment",) * len(table) + ("contradiction",) * len(table)
        return NLIData(anchors * 2, positives + negatives, labels)
    premise, hypothesis, label = table.columns
    meanings = [_label(value, table.where(row)) for row, value in enumerate(table.columns[label])]
    labelled = table.rows([row for row, name in enumerate(meanings) if name is not None])
    labels = tuple(name for name in meanings if name is not None)
    unlabelled = len(table) - len(labelled)
    return NLIData(labelled.stripped(premise), labelled.stripped(hypothesis), labels, unlabelled=unlabelled)


def _label(value: object, where: str) -> str | None:
    name = str(value)
    if name not in _MEANING:
        raise UserError(
            f"{where}: label is {value!r}; {choices(LABELS, name)}, 0, 1, 2 (in that order), -1 or '-' for none"
        )
    return _MEANING[name]
