"""Numbers in text and in arguments: what Python allows beyond is refused wherever it is read."""

import inspect
import math
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from experiments.small import compare_small
from flowbert.encoders.layers import resolve_layers
from flowbert.encoders.pooling import make_pooling
from flowbert.errors import UserError
from flowbert.experiments import compare
from flowbert.flows import FlowOptions, Glow
from flowbert.maps import Flow, make_map
from flowbert.methods import FlowModule, SimCSEModule
from flowbert.methods.losses import InfoNCE
from flowbert.methods.mlm import MLMModule
from flowbert.methods.sbert import SBERTModule
from flowbert.methods.text import TextDataModule
from flowbert.numbers import check_number, parse_integer, parse_number, parse_numbers
from flowbert.options import CheckpointOptions
from flowbert.training import RowsDataModule, checkpoint_callbacks
from helpers import refused
from texts import examples, trainable

NO_NUMBERS = ["1_0", "\uff11", "\u0663", "nan", "inf", "-Infinity", "1e400", "", "0x1"]


def open_map(text):
    make_map(text).check(16)


READERS = {
    "whitening:shrinkage={}": open_map,
    "whitening-{}": open_map,
    "sif:a={}": make_pooling,
    "1,{}": lambda text: resolve_layers(text, 12),
}


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_no_numbers(text):
    with pytest.raises(ValueError, match=r"is not a number|is not finite"):
        parse_number(text)
    with pytest.raises(ValueError, match=r"is not a number|is not finite"):
        parse_numbers(["1", text])
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_integer(text)
    for option, read in READERS.items():
        with pytest.raises(UserError):
            read(option.format(text))


def test_numbers_are_those_of_python():
    for text in ("0", "-1", "+2.", ".5", "4.5e-1", "1E3", " 7 "):
        assert parse_number(text) == float(text)
    assert [parse_integer(text) for text in ("12", "-3", "+4 ")] == [12, -3, 4]
    with pytest.raises(ValueError, match=r"'1\.0' is not a whole number"):
        parse_integer("1.0")


ROWS = np.eye(9, 4, dtype=np.float32)
opened = cache(trainable)
prepared = cache(examples)
CALLS: dict[Any, Any] = {
    Glow: lambda dim=8, **options: Glow(dim, **options),
    Flow: lambda **options: Flow(**options).fit(ROWS),
    FlowOptions: partial(FlowModule, 8),
    InfoNCE: InfoNCE,
    RowsDataModule: partial(RowsDataModule, ROWS),
    TextDataModule: lambda **options: TextDataModule(opened(), prepared(), **options),
    CheckpointOptions: partial(checkpoint_callbacks, "folder"),
    compare: partial(compare_small, "builtin-sample"),
    **{
        kind: lambda kind=kind, **options: kind(opened(), **options)
        for kind in (MLMModule, SBERTModule, SimCSEModule)
    },
}
OUTSIDE = (-1, 0, 0.7, 1, 10**30, math.inf, math.nan, True, "1")


@pytest.mark.parametrize("called", CALLS, ids=lambda called: called.__name__)
def test_numbers_outside_their_limits_are_named(called):
    """At least -1 of each parameter that has limits, also of those of a base class."""
    tried = 0
    for part in getattr(called, "__mro__", [called]):
        if not part.__module__.startswith("flowbert"):
            continue
        for name, parameter in inspect.signature(part).parameters.items():
            for value in OUTSIDE:
                try:
                    check_number(name, value, parameter.annotation)
                except UserError:
                    refused(f"^{name}: received", CALLS[called], **{name: value})
                    tried += 1
    assert tried
