"""Methods by name: compositions, flows with options, and mistakes before anything is encoded."""

import pytest
import torch

from flowbert.calibration import Whitening
from flowbert.errors import UserError
from flowbert.evaluation import Method
from flowbert.methods.flow_fit import fit_flow
from flowbert.methods.parse import FlowStep, parse_methods

CPU = torch.device("cpu")


def parse(name: str, flow: str | None = None) -> Method:
    (method,) = parse_methods([name], flow, CPU)
    return method


def test_composition_keeps_the_order_and_the_options() -> None:
    method = parse("whitening-8:shrinkage=0.1+flow:mixing=reverse:epochs=1")
    assert method.build is not None
    first, last = method.build(7).steps
    assert isinstance(first, Whitening)
    assert (first.n_components, first.shrinkage) == (8, 0.1)
    assert isinstance(last, FlowStep)
    assert (last.options, last.seed) == ({"mixing": "reverse", "epochs": 1}, 7)
    assert method.seeded
    assert not method.supervised


def test_raw_and_learned_removal() -> None:
    assert parse("raw").build is None
    assert parse("learned-removal-9").supervised
    assert not parse("whitening").seeded


def test_flow_step_is_fit_flow() -> None:
    x = torch.randn(96, 8, generator=torch.Generator().manual_seed(0)) * 3 + 1
    options = {"mixing": "reverse", "epochs": 1, "batch_size": 32}
    step = FlowStep(options, seed=3).fit(x)
    expected = fit_flow(x, seed=3, accelerator="cpu", mixing="reverse", epochs=1, batch_size=32).embed(x)
    torch.testing.assert_close(step.transform(x), expected)


def test_a_share_of_an_epoch_sees_that_share_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def spy(x: torch.Tensor, **options: object) -> object:
        seen.update(rows=x, **options)
        return type("Fitted", (), {"embed": staticmethod(lambda y: y), "flaw": None})

    monkeypatch.setattr("flowbert.modules.fit_flow", spy)
    x = torch.arange(200.0)[:, None].expand(-1, 4)
    FlowStep({"epochs": 0.15}, seed=0).fit(x)
    rows = seen["rows"]
    assert isinstance(rows, torch.Tensor)
    assert len(rows) == 30
    assert len(set(rows[:, 0].tolist())) == 30
    assert seen["epochs"] == 1


@pytest.mark.parametrize(
    ("name", "flow", "message"),
    [
        ("flow", None, "--flow: method flow needs the run folder of a finished `fit`, or 'fit'"),
        ("flow:mixng=lu", None, "unknown option 'mixng=lu'; allowed: .*did you mean 'mixing'"),
        ("flow-3", None, "flow takes no number"),
        ("whitening+flwo", None, "unknown method 'flwo'; .*did you mean 'flow'"),
        ("flow:epochs", None, "unknown option 'epochs'; allowed: name=value"),
        ("flow:mixing=revers", None, "method 'flow:mixing=revers': .*did you mean 'reverse'"),
        ("whitening-8+flow:coupling=afine", None, "method 'flow:coupling=afine': .*did you mean 'affine'"),
        ("flow:batch_size=0", None, "batch_size: received 0; allowed: a whole number of at least 1"),
        ("flow:start_size=1.5", None, "start_size: received 1.5; allowed: a whole number of at least 2"),
        ("flow:learning_rate=abc", None, "method 'flow:learning_rate=abc': a value is of the wrong kind"),
        ("zca:rank_tolerance=abc", None, "method 'zca:rank_tolerance=abc': a value is of the wrong kind"),
        ("whitening:shrinkage=2", None, "method 'whitening:shrinkage=2': shrinkage: received 2; allowed: a number in"),
    ],
)
def test_mistakes(name: str, flow: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse(name, flow)


@pytest.mark.parametrize("epochs", [0, -1, 1.5])
def test_impossible_epochs(epochs: float) -> None:
    with pytest.raises(UserError, match=f"epochs: received {epochs}"):
        FlowStep({"epochs": epochs}, seed=0)


def test_fit_here() -> None:
    method = parse("flow", "fit")
    assert method.build is not None
    assert isinstance(method.build(0).steps[0], FlowStep)
