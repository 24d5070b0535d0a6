"""The flow as a map: fitted by one function, its options refused before anything is encoded."""

import pytest
import torch

from flowbert.errors import UserError
from flowbert.methods import flow as flow_file
from flowbert.methods.flow import Flow, fit_flow, flow_options


def test_the_step_is_fit_flow() -> None:
    x = torch.randn(96, 8, generator=torch.Generator().manual_seed(0)) * 3 + 1
    options = {"mixing": "reverse", "epochs": 1, "batch_size": 32}
    step = Flow(options, seed=3).fit(x)
    expected = fit_flow(x, seed=3, accelerator="cpu", mixing="reverse", epochs=1, batch_size=32).embed(x)
    torch.testing.assert_close(step.transform(x), expected)


def test_a_share_of_an_epoch_sees_that_share_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    data = flow_file._TensorData

    def watched(rows: torch.Tensor, *sizes: int) -> flow_file._TensorData:
        seen.append(rows)
        return data(rows, *sizes)

    monkeypatch.setattr(flow_file, "_TensorData", watched)
    x = torch.arange(800.0).reshape(200, 4)
    Flow({"epochs": 0.15}, seed=0).fit(x)
    Flow({"epochs": 0.15}, seed=1).fit(x)
    first, other = ({int(row[0]) for row in rows} for rows in seen)
    assert len(first) == len(other) == 30
    assert first != other


def test_steps_are_as_many_on_few_rows_as_on_many() -> None:
    x = torch.randn(96, 8, generator=torch.Generator().manual_seed(0)) * 3 + 1
    by_steps, by_epochs = (
        fit_flow(x, accelerator="cpu", batch_size=32, **length) for length in ({"steps": 6}, {"epochs": 2})
    )
    assert by_steps.global_step == by_epochs.global_step == 6
    assert torch.equal(by_steps.embed(x), by_epochs.embed(x))
    assert fit_flow(x[:40], accelerator="cpu", batch_size=32, steps=6).global_step == 6


def test_steps_and_epochs_exclude_each_other() -> None:
    both = {"steps": 5, "epochs": 2}
    for call in (Flow, lambda options: fit_flow(torch.zeros(4, 8), **options)):
        with pytest.raises(UserError, match="steps: received 5 and epochs 2; allowed: one of the two"):
            call(both)
    for wrong in (0, None, True, "x"):
        with pytest.raises(UserError, match=f"steps: received {wrong}"):
            Flow({"steps": wrong})


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.filterwarnings("ignore:a flow of N=6:flowbert.errors.FlowbertWarning")
def test_noise_gives_few_rows_a_likelihood(noise: float) -> None:
    few = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    fitted = fit_flow(few, noise=noise, steps=20, accelerator="cpu")
    assert (fitted.flaw is None) == (noise > 0)
    assert fitted.embed(few).isfinite().all()


def test_noise_is_none_where_nothing_varies() -> None:
    assert "needed: at least 2 distinct sentences" in str(Flow({}).fit(torch.ones(1, 8)).flaw)


@pytest.mark.parametrize("epochs", [0, -1, 1.5])
def test_impossible_epochs(epochs: float) -> None:
    with pytest.raises(UserError, match=f"epochs: received {epochs}"):
        Flow({"epochs": epochs}, seed=0)


def test_every_option_of_a_flow_is_checked_before_a_fit() -> None:
    assert {"epochs", "batch_size", "start_size", "mixing", "noise", "levels"} <= set(flow_options())
    assert not {"dim", "seed", "encoder"} & set(flow_options())
    for options, message in (({"start_size": 1}, "start_size: received 1"), ({"mixing": "revers"}, "did you mean")):
        with pytest.raises(UserError, match=message):
            Flow(options)
        with pytest.raises(UserError, match=message):
            fit_flow(torch.zeros(4, 8), **options)
    with pytest.raises(TypeError, match="mixng"):
        fit_flow(torch.zeros(4, 8), mixng="lu")
    with pytest.raises(ValueError, match=r"shape \(8,\); allowed: \(N, D\)"):
        fit_flow(torch.zeros(8))
    with pytest.raises(RuntimeError, match="not fitted: call fit"):
        Flow({}).transform(torch.zeros(1, 8))


def test_one_sentence_is_no_flow() -> None:
    step = Flow({}).fit(torch.zeros(1, 8))
    assert step.flaw is not None
    assert "N=1 distinct sentences in D=8" in step.flaw
