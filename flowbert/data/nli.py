"""Natural language inference pairs: premise, hypothesis, and whether the one entails or contradicts the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flowbert.data.files import expand_files
from flowbert.data.hub import read_hub
from flowbert.data.readers import Table, column_names, read_table
from flowbert.errors import UserError, choices

LABELS = ("entailment", "neutral", "contradiction")
BUILTIN = "builtin-sample"
_NO_LABEL = ("-", "-1")
_HUB_DEFAULT = ("stanfordnlp/snli", "nyu-mll/multi_nli")
_LAYOUTS = (("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label"))
_TRIPLE_LAYOUT = ("sent0", "sent1", "hard_neg")


@dataclass(frozen=True)
class NLIData:
    """Labelled pairs.

    Args:
        name: The source as given.
        premises: First sentences, N of them.
        hypotheses: Second sentences, N of them.
        labels: N of ``entailment``, ``neutral``, ``contradiction``.
        unlabelled: Pairs dropped because they have no gold label.
    """

    name: str
    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: tuple[str, ...]
    unlabelled: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    def triples(self) -> list[tuple[str, str, str]]:
        """(premise, entailment, contradiction) of every premise that has both.

        A premise's i-th entailment goes with its i-th contradiction; what is left over on one side is not used.
        Premises come in the order of their first pair.
        """
        groups: dict[str, dict[str, list[str]]] = {}
        for premise, hypothesis, label in zip(self.premises, self.hypotheses, self.labels, strict=True):
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
        return _sample_nli()
    if source == "hub":
        return _joined(source, [_hub_pairs(name) for name in _HUB_DEFAULT])
    if source.startswith("hub:"):
        return _joined(source, [_hub_pairs(source.removeprefix("hub:"))])
    return _joined(source, [_file_pairs(path) for path in expand_files(source)])


def _sample_nli() -> NLIData:
    from flowbert.data.sample import sample_nli

    premises, hypotheses, labels = zip(*sample_nli(), strict=True)
    return NLIData(BUILTIN, premises, hypotheses, labels)


def _joined(name: str, parts: Sequence[NLIData]) -> NLIData:
    data = NLIData(
        name,
        tuple(premise for part in parts for premise in part.premises),
        tuple(hypothesis for part in parts for hypothesis in part.hypotheses),
        tuple(label for part in parts for label in part.labels),
        sum(part.unlabelled for part in parts),
    )
    if not data.labels:
        raise UserError(f"{name}: no labelled pair, only {data.unlabelled} without a gold label")
    return data


def _hub_pairs(name: str) -> NLIData:
    return _labelled(read_hub(name, _LAYOUTS[0]), *_LAYOUTS[0])


def _file_pairs(path: Path) -> NLIData:
    names = column_names(path)
    if set(_TRIPLE_LAYOUT) <= set(names):
        return _from_triples(read_table(path, _TRIPLE_LAYOUT))
    layout = next((layout for layout in _LAYOUTS if set(layout) <= set(names)), None)
    if layout is None:
        allowed = " or ".join(", ".join(layout) for layout in (*_LAYOUTS, _TRIPLE_LAYOUT))
        raise UserError(f"{path}: no NLI columns; there are {', '.join(names)}; allowed: {allowed}")
    return _labelled(read_table(path, layout), *layout)


def _labelled(table: Table, premise: str, hypothesis: str, label: str) -> NLIData:
    labels = [_label(value, table.where(row)) for row, value in enumerate(table.columns[label])]
    rows = [row for row, name in enumerate(labels) if name is not None]
    premises, hypotheses = _filled(table, premise, rows), _filled(table, hypothesis, rows)
    kept = tuple(name for name in labels if name is not None)
    return NLIData(str(table.path), premises, hypotheses, kept, len(labels) - len(kept))


def _filled(table: Table, column: str, rows: Sequence[int]) -> tuple[str, ...]:
    texts = table.texts(column)
    for row in rows:
        if not texts[row].strip():
            raise UserError(f"{table.where(row)}: column {column!r} is empty; allowed: a sentence")
    return tuple(texts[row].strip() for row in rows)


def _label(value: object, where: str) -> str | None:
    name = str(value)
    if name in LABELS:
        return name
    if name in _NO_LABEL:
        return None
    if name in ("0", "1", "2"):
        return LABELS[int(name)]
    raise UserError(
        f"{where}: label is {value!r}; {choices(LABELS, name)}, 0, 1, 2 (in that order), -1 or '-' for none"
    )


def _from_triples(table: Table) -> NLIData:
    rows = range(len(table))
    anchors, positives, negatives = (_filled(table, column, rows) for column in _TRIPLE_LAYOUT)
    labels = ("entailment",) * len(table) + ("contradiction",) * len(table)
    return NLIData(str(table.path), anchors * 2, positives + negatives, labels)
