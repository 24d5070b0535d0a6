"""Natural language inference: pairs of premise and hypothesis with a label."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import repeat

import pandas as pd

from flowbert.data.hub import hub_name, read_hub
from flowbert.data.sample import BUILTIN, sample_nli
from flowbert.data.tables import as_label, read_columns, read_frame, read_sentences
from flowbert.data.text_files import expand_files
from flowbert.errors import UserError

LABELS = ("entailment", "neutral", "contradiction")
_MEANING: dict[str, str | None] = {name: name for name in LABELS}
_MEANING |= dict(zip("012", LABELS, strict=True)) | dict.fromkeys(("-1", "-"))
_HUB_SETS = ("stanfordnlp/snli", "nyu-mll/multi_nli")
_PAIRS = ("premise", "hypothesis", "label")
_NLI_LAYOUTS = (
    ("sent0", "sent1", "hard_neg"),
    _PAIRS,
    ("sentence1", "sentence2", "gold_label"),
)


_Pair = tuple[str, str, str]  # premise, hypothesis, label


@dataclass(frozen=True)
class NLIData:
    """Labelled pairs.

    Args:
        premises: First sentences, N of them.
        hypotheses: Second sentences, N of them.
        labels: N of ``entailment``, ``neutral``, ``contradiction``.
    """

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def triples(self) -> list[tuple[str, str, str]]:
        """(premise, entailment, contradiction) of every premise that has both.

        The i-th entailment of a premise is matched with its i-th contradiction; the others are not
        used. Premises keep the order of their first pair.
        """
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for premise, hypothesis, label in zip(
            self.premises, self.hypotheses, self.labels, strict=True
        ):
            groups[premise, label].append(hypothesis)
        return [
            (premise, entailed, contradicting)
            for premise in dict.fromkeys(self.premises)
            for entailed, contradicting in zip(
                groups[premise, "entailment"],
                groups[premise, "contradiction"],
                strict=False,
            )
        ]


def load_nli(source: str) -> NLIData:
    """Load NLI pairs; those without a gold label are left out.

    Args:
        source: ``builtin-sample``; ``hub`` (train splits of SNLI and MNLI); ``hub:NAME`` (train
            split of a hub data set or of a local folder in the same layout); or files (a path, a
            glob, a list with commas) with the columns premise, hypothesis, label, or SNLI's
            sentence1, sentence2, gold_label, or SimCSE's sent0, sent1, hard_neg. A label is a name
            of ``LABELS`` or a number: an index of the names that the file stores (``ClassLabel``,
            hub and parquet), else of ``LABELS``. ``-1`` and ``-`` mean no gold label.

    Raises:
        UserError: If a file is missing or damaged, or has an unknown label or an empty sentence.

    Example:
        >>> data = load_nli("builtin-sample")
        >>> len(data), len(data.triples())
        (12000, 4000)
    """
    if source == BUILTIN:
        return NLIData(*zip(*sample_nli(), strict=True))
    hub = hub_name(source)
    if hub is None:
        tables = [read_frame(path, *_NLI_LAYOUTS) for path in expand_files(source)]
    else:
        tables = [read_hub(name, _PAIRS) for name in ([hub] if hub else _HUB_SETS)]
    return labelled_pairs(tables)


def labelled_pairs(tables: list[pd.DataFrame]) -> NLIData:
    """Read the pairs that have a gold label.

    Raises:
        UserError: If no pair has a gold label, a label is unknown, or a sentence is empty.
    """
    pairs: list[_Pair] = []
    for rows in tables:
        pairs += _split_triples(rows) if "hard_neg" in rows else _drop_unlabelled(rows)
    if not pairs:
        raise UserError(f"{tables[0].attrs['source']}: no pair has a gold label")
    return NLIData(*zip(*pairs, strict=True))


def _split_triples(rows: pd.DataFrame) -> list[_Pair]:
    """Make an entailment and a contradiction of each triple of SimCSE's file."""
    premises, entailed, contradicting = (read_sentences(rows, name) for name in rows)
    return [
        *zip(premises, entailed, repeat("entailment"), strict=False),
        *zip(premises, contradicting, repeat("contradiction"), strict=False),
    ]


def _drop_unlabelled(rows: pd.DataFrame) -> list[_Pair]:
    """Read premise, hypothesis and label of the rows that have a label."""
    premise, hypothesis, label = rows
    (labels,) = read_columns(rows, {label: as_label(_MEANING)})
    labelled = rows[[name is not None for name in labels]]
    premises = read_sentences(labelled, premise)
    hypotheses = read_sentences(labelled, hypothesis)
    return [*zip(premises, hypotheses, filter(None, labels), strict=True)]
