"""Maps fitted on other text than a task's: told where raw vectors are better."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from flowbert.data.sample import sample_corpus
from flowbert.data.sts import STSData, load_sts
from flowbert.encoders import SentenceEncoder
from flowbert.errors import FlowbertWarning
from flowbert.experiments.transfer import warn_of_transfer
from flowbert.maps import Whitening
from flowbert.tasks import STS, Lexical, Task

SAMPLE = load_sts("SAMPLE")


class OneDirection:
    """A map that keeps one dimension of all, beside a constant."""

    def transform(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :1], torch.ones(len(x), 1)], dim=1)


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder(layers="first_last")


def told(
    encoder: SentenceEncoder, corpus: str, tasks: Sequence[Task], **maps: Any
) -> Any:
    def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
        return encoder.encode(sentences)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FlowbertWarning)
        warn_of_transfer(corpus, tasks, maps, embed)
    return [str(warning.message) for warning in caught]


def test_only_a_map_that_costs_points_is_told(encoder: SentenceEncoder) -> None:
    whitening = Whitening().fit(encoder.encode(sample_corpus()[:2000]))
    tasks = [STS(SAMPLE)]
    maps = {"whitening": whitening, "one": OneDirection()}
    (text,) = told(encoder, "news.txt", tasks, **maps)
    assert text.startswith("corpus: on the development pairs of SAMPLE raw vectors")
    assert "better than one fitted on news.txt, by " in text


def test_a_difference_within_noise_is_not_told(encoder: SentenceEncoder) -> None:
    class Nearly(OneDirection):
        def transform(self, x: torch.Tensor) -> torch.Tensor:
            return x + 0.01 * torch.randn(
                x.shape, generator=torch.Generator().manual_seed(0)
            )

    assert told(encoder, "news.txt", [STS(SAMPLE)], nearly=Nearly()) == []


@pytest.mark.parametrize("corpus", ["target", "train_only"])
def test_the_first_task_is_not_another_text(
    corpus: str, encoder: SentenceEncoder
) -> None:
    tasks = [STS(SAMPLE), STS(STSData("OTHER", SAMPLE.splits))]
    (text,) = told(encoder, corpus, tasks, one=OneDirection())
    assert "OTHER" in text


def test_without_development_pairs_there_is_nothing_to_tell(
    encoder: SentenceEncoder,
) -> None:
    test_only = STSData("TEST", {"test": SAMPLE.splits["test"]})
    tasks = [STS(test_only), Lexical(SAMPLE)]
    assert told(encoder, "news.txt", tasks, one=OneDirection()) == []
