"""The closed-form baseline: fitted once on the corpus, whatever comes first, and carried by the checkpoint."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from flowbert.calibration import Whitening
from flowbert.callbacks import WhiteningBaseline
from flowbert.errors import UserError


class Data:
    """A data module's corpus, which counts how often it is read."""

    def __init__(self) -> None:
        self.rows = torch.randn(200, 8, generator=torch.Generator().manual_seed(0)) * torch.arange(1.0, 9.0) + 3
        self.corpus_rows, self.read = len(self.rows), 0

    def corpus_chunks(self) -> Iterator[Tensor]:
        self.read += 1
        yield from torch.split(self.rows, 64)


def trainer_of(data: Data) -> Any:
    return SimpleNamespace(datamodule=data, world_size=1)


@pytest.mark.parametrize("hook", ["on_fit_start", "on_validation_start", "on_test_start"])
def test_fitted_once_by_whatever_comes_first(hook: str) -> None:
    data, callback = Data(), WhiteningBaseline(n_components=4, shrinkage=0.1)
    module: Any = None
    for name in (hook, "on_fit_start", "on_validation_start", "on_test_start"):
        getattr(callback, name)(trainer_of(data), module)
    assert data.read == 1
    expected = Whitening(n_components=4, shrinkage=0.1).fit(data.rows)
    torch.testing.assert_close(callback.transform(data.rows), expected.transform(data.rows))
    assert callback.flaw is None


def test_its_statistics_travel_with_the_checkpoint() -> None:
    data, module = Data(), None
    callback: Any = WhiteningBaseline()
    assert callback.state_dict() == {}
    callback.on_fit_start(trainer_of(data), module)
    resumed: Any = WhiteningBaseline()
    resumed.load_state_dict(callback.state_dict())
    resumed.on_fit_start(trainer_of(data), module)
    assert data.read == 1
    assert torch.equal(resumed.transform(data.rows), callback.transform(data.rows))
    assert resumed.state_key == callback.state_key != WhiteningBaseline(shrinkage=0.1).state_key


def test_more_directions_than_there_are_is_told_before_the_fit() -> None:
    WhiteningBaseline(n_components=8).calibration.output_dim(8)
    with pytest.raises(UserError, match="n_components: received 9; allowed: 1 to 8"):
        WhiteningBaseline(n_components=9).calibration.output_dim(8)


def test_too_few_sentences_are_a_flaw() -> None:
    data = Data()
    data.rows = data.rows[:5]
    callback: Any = WhiteningBaseline(n_components=4)
    callback.on_fit_start(trainer_of(data), None)
    assert "N=5 distinct sentences in D=8 dimensions" in callback.flaw
