"""STS with the preprocessing of PromptEOL's evaluation."""

import re
from dataclasses import replace
from typing import Any

from flowbert.data.scored_pairs import STSData
from flowbert.tasks.base import TASKS
from flowbert.tasks.sts import STS


@TASKS.register("prompteol")
class PromptEOLSTS(STS):
    """:class:`STS` of sentences as the evaluation of PromptEOL prepares them for its templates.

    A full stop or question mark at the end is left to the template, ``"{}."``, whose stop and quote
    may be one token; ``"`` becomes ``'``. The arguments are those of :class:`STS`.

    References:
        Scaling Sentence Embeddings with Large Language Models (Jiang et al., 2023).
        https://arxiv.org/abs/2307.16645; the preparation is that of its code, evaluation.py of
        https://github.com/kongds/scaling_sentemb.
    """

    def __init__(self, data: STSData, split: str = "test", **options: Any) -> None:
        splits = {
            name: [
                replace(
                    subset,
                    sentences1=tuple(map(_without_stop, subset.sentences1)),
                    sentences2=tuple(map(_without_stop, subset.sentences2)),
                )
                for subset in subsets
            ]
            for name, subsets in data.splits.items()
        }
        name = f"{self.kind}:{data.name}"
        super().__init__(replace(data, name=name, splits=splits), split, **options)


def _without_stop(sentence: str) -> str:
    """A sentence without the final full stop, which the template adds."""
    return re.sub(r"[.?]$", "", sentence).replace('"', "'")
