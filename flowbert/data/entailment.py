"""Entailment with splits, to train a classifier, choose its penalty, and test it."""

import os
from dataclasses import dataclass
from pathlib import Path

from flowbert.data.nli import BUILTIN, NLIData, labelled_pairs, load_nli
from flowbert.data.sts import SAMPLE_TASK, read_sick
from flowbert.data.tables import is_table
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream


@dataclass(frozen=True, eq=False)
class EntailmentData:
    """Labelled pairs of the splits ``train`` (at least two labels), ``dev`` and ``test``."""

    name: str
    splits: dict[str, NLIData]


def load_entailment(source: str, senteval: str | Path | None = None) -> EntailmentData:
    """Load labelled pairs with their splits.

    SICK is published with splits. NLI pairs are split by premise: a tenth of the premises each for
    ``dev`` and ``test``, drawn with seed 0 from the sorted premises, so that no premise is in two
    splits and the order of the file does not matter.

    Args:
        source: ``SICKR``, ``SAMPLE`` (the built-in NLI pairs), or a file of NLI pairs, as in
            :func:`flowbert.data.nli.load_nli`.
        senteval: Folder in the layout of SentEval's ``data/downstream``, for SICKR.

    Raises:
        UserError: If the source is unknown or damaged, or has too few premises or labels.

    Example:
        >>> data = load_entailment("SAMPLE")
        >>> {split: len(pairs) for split, pairs in data.splits.items()}
        {'train': 9600, 'dev': 1200, 'test': 1200}
    """
    if source == "SICKR":
        if senteval is None:
            raise UserError(
                "received nothing; expected a SentEval folder for SICKR",
                argument="senteval",
            )
        parts = read_sick(
            Path(os.path.expanduser(senteval)), source, "entailment_judgment"
        )
        splits = {split: labelled_pairs([rows]) for split, _, rows in parts}
    elif source == SAMPLE_TASK or is_table(source):
        splits = _split_by_premise(
            load_nli(BUILTIN if source == SAMPLE_TASK else source), source
        )
    else:
        allowed = choices(["SICKR", SAMPLE_TASK], source.upper())
        raise UserError(
            f"received {source!r} for entailment; expected {allowed}, or a file",
            argument="tasks",
        )
    if len(set(splits["train"].labels)) < 2:
        raise UserError(
            f"{source}: every label to train on is {splits['train'].labels[0]}"
        )
    return EntailmentData(Path(source).name.split(".")[0], splits)


def _split_by_premise(data: NLIData, source: str) -> dict[str, NLIData]:
    premises = sorted(set(data.premises))
    if len(premises) < 10:
        raise UserError(
            f"{source}: received {len(premises)} premises; expected 10 or more"
        )
    held_out = round(0.1 * len(premises))
    order = Stream(0, "split", of="premises").rng().permutation(len(premises))
    drawn = [premises[index] for index in order]
    premises_of = {
        "train": set(drawn[2 * held_out :]),
        "dev": set(drawn[held_out : 2 * held_out]),
        "test": set(drawn[:held_out]),
    }
    pairs = list(zip(data.premises, data.hypotheses, data.labels, strict=True))
    splits = {}
    for split, members in premises_of.items():
        chosen = [pair for pair in pairs if pair[0] in members]
        splits[split] = NLIData(*zip(*chosen, strict=True))
    return splits
