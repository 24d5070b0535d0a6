"""Methods by name, as the command line writes them."""

import pytest

from flowbert.calibration import Identity, RemoveDirections, Whitening, methods
from flowbert.errors import UserError
from flowbert.methods import make_calibration, split_chain
from flowbert.methods.registry import parse_spec


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
        ("whitning", "unknown method 'whitning'; allowed: .*did you mean 'whitening'"),
        ("whitning-128", "did you mean 'whitening'"),
        ("zca-3", "takes no number"),
        ("raw:a=1", "unknown option 'a=1'"),
        ("whitening:shrinkag=0.1", "did you mean 'shrinkage'"),
        ("whitening:shrinkage", "unknown option 'shrinkage'"),
        ("whitening:shrinkage=3", "shrinkage: received 3"),
        ("whitening-0", "n_components: received 0"),
        ("", "unknown method ''"),
    ],
)
def test_mistakes_name_what_is_allowed(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_calibration(spec)


def test_a_composition_is_parted_at_plus_signs_but_not_inside_numbers() -> None:
    assert split_chain("whitening-8:shrinkage=1e+0+ zca") == ["whitening-8:shrinkage=1e+0", "zca"]
    assert split_chain("raw") == ["raw"]


def test_names_of_methods_may_have_hyphens() -> None:
    found = parse_spec("learned-removal-50:penalty=0.01:center=false", methods())
    assert (found.name, found.number, found.options) == ("learned-removal", 50, {"penalty": 0.01, "center": False})
