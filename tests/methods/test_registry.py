"""Methods by name, as the command line writes them, and mistakes before anything is encoded."""

import pytest
import torch

from flowbert.calibration import Identity, RemoveDirections, Whitening, methods
from flowbert.errors import UserError
from flowbert.methods import Chain, Method, make_calibration, parse_methods
from flowbert.methods.flow import Flow
from flowbert.methods.registry import split_chain
from flowbert.spec import parse_spec

CPU = torch.device("cpu")


def test_names_numbers_and_options() -> None:
    assert isinstance(make_calibration("raw"), Identity)
    assert make_calibration("whitening-128").config == Whitening(n_components=128).config
    both = make_calibration("whitening-64:shrinkage=ledoit-wolf:exponent=-0.35")
    assert both.config == Whitening(64, "ledoit-wolf", -0.35).config
    assert make_calibration("nulling-3:standardize=true").config == RemoveDirections(3, True).config
    assert make_calibration("whitening:n_components=none").config == Whitening().config


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("whitning", "method: received 'whitning'; allowed: .*did you mean 'whitening'"),
        ("whitning-128", "did you mean 'whitening'"),
        ("zca-3", "takes no number"),
        ("raw:a=1", "unknown option 'a=1'"),
        ("whitening:shrinkag=0.1", "did you mean 'shrinkage'"),
        ("whitening:shrinkage", "unknown option 'shrinkage'"),
        ("whitening:shrinkage=0.1:shrinkage=0.2", "shrinkage stands there twice; allowed: once"),
        ("whitening:shrinkage=3", "shrinkage: received 3"),
        ("whitening-0", "n_components: received 0"),
        ("", "method: received ''"),
    ],
)
def test_mistakes_of_a_calibration_name_what_is_allowed(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_calibration(spec)


def test_a_composition_is_parted_at_plus_signs_but_not_inside_numbers() -> None:
    assert split_chain("whitening-8:shrinkage=1e+0+ zca") == ["whitening-8:shrinkage=1e+0", "zca"]
    assert split_chain("raw") == ["raw"]


def test_names_of_methods_may_have_hyphens() -> None:
    found = parse_spec("learned-removal-50:penalty=0.01:center=false", methods())
    assert (found.name, found.number, found.options) == ("learned-removal", 50, {"penalty": 0.01, "center": False})


def parse(name: str, flow: str | None = None) -> Method:
    (method,) = parse_methods([name], flow, CPU)
    return method


def test_composition_keeps_the_order_and_the_options() -> None:
    method = parse("whitening-8:shrinkage=0.1+flow:mixing=reverse:epochs=1")
    assert method.build is not None
    chain = method.build(7)
    assert isinstance(chain, Chain)
    first, last = chain.steps
    assert isinstance(first, Whitening)
    assert (first.n_components, first.shrinkage) == (8, 0.1)
    assert isinstance(last, Flow)
    assert (last.options, last.seed) == ({"mixing": "reverse", "epochs": 1}, 7)
    assert method.seeded
    assert not method.supervised


def test_raw_and_learned_removal() -> None:
    assert parse("raw").build is None
    assert parse("learned-removal-9").supervised
    assert not parse("whitening").seeded


@pytest.mark.parametrize(
    ("name", "flow", "message"),
    [
        ("flow", None, "flow: received none; allowed with method flow: a run folder of `fit`, or 'fit'"),
        ("flow:mixng=lu", None, "unknown option 'mixng=lu'; allowed: .*did you mean 'mixing'"),
        ("flow-3", None, "flow takes no number"),
        ("whitening+flwo", None, "method: received 'flwo'; .*did you mean 'flow'"),
        ("flow:epochs", None, "unknown option 'epochs'; allowed: name=value"),
        ("flow:mixing=revers", None, "method 'flow:mixing=revers': .*did you mean 'reverse'"),
        ("whitening-8+flow:coupling=afine", None, "method 'flow:coupling=afine': .*did you mean 'affine'"),
        ("flow:batch_size=0", None, "batch_size: received 0; allowed: a whole number of at least 1"),
        ("flow:start_size=1.5", None, "start_size: received 1.5; allowed: a whole number of at least 2"),
        ("flow:learning_rate=abc", None, "method 'flow:learning_rate=abc': a value is of the wrong kind"),
        ("zca:rank_tolerance=abc", None, "method 'zca:.*': rank_tolerance: received 'abc'; allowed: a number in"),
        ("whitening:shrinkage=2", None, "method 'whitening:shrinkage=2': shrinkage: received 2; allowed: a number in"),
    ],
)
def test_mistakes_of_a_method(name: str, flow: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse(name, flow)


def test_fit_here() -> None:
    method = parse("flow", "fit")
    assert method.build is not None
    chain = method.build(0)
    assert isinstance(chain, Chain)
    assert isinstance(chain.steps[0], Flow)
