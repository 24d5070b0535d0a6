"""Numbers of a run: inside, outside, and not given."""

import math

import pytest

from flowbert.errors import UserError
from flowbert.training.limits import LIMITS, check_limits


@pytest.mark.parametrize("name", LIMITS)
def test_what_is_outside_is_refused(name: str) -> None:
    check_limits(**{name: None})
    with pytest.raises(UserError, match=rf"{name}: received -1; allowed: "):
        check_limits(**{name: -1})
    for infinite in (math.inf, math.nan):
        with pytest.raises(UserError, match=rf"{name}: received {infinite}; allowed: .*, finite"):
            check_limits(**{name: infinite})
