"""Known notices are still worded as the filters expect, and everything is as before afterwards."""

import ast
import importlib.util
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from transformers.utils import logging as transformers_logging

from flowbert.notices import HARMLESS, lightning_notices_filtered, transformers_notices_off


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)


@cache
def _messages() -> tuple[str, ...]:
    """Every text in the sources of the libraries that warn."""
    files = [Path(str(importlib.util.find_spec("torch.utils._pytree").origin))]  # type: ignore[union-attr]
    for package in ("pytorch_lightning", "lightning_fabric"):
        folder = Path(str(importlib.util.find_spec(package).origin)).parent  # type: ignore[union-attr]
        files += sorted(folder.rglob("*.py"))
    return tuple(text for file in files for text in _texts(ast.parse(file.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("pattern", HARMLESS)
def test_the_libraries_still_say_so(pattern: str) -> None:
    found = re.compile(pattern, re.IGNORECASE | re.DOTALL)  # if this fails, a library has another wording now
    assert any(found.match(text) for text in _messages())


def test_lightning_is_as_loud_as_before_afterwards() -> None:
    logger = logging.getLogger("pytorch_lightning")
    before = logger.level
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(KeyboardInterrupt), lightning_notices_filtered():
            assert logger.level == logging.WARNING
            warnings.warn("Checkpoint directory x exists and is not empty.", stacklevel=1)
            warnings.warn("something else", stacklevel=1)
            raise KeyboardInterrupt
    assert [str(warning.message) for warning in caught] == ["something else"]
    assert logger.level == before


def test_transformers_is_as_loud_as_before_afterwards() -> None:
    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    with transformers_notices_off():
        assert transformers_logging.get_verbosity() == logging.ERROR
        assert not transformers_logging.is_progress_bar_enabled()
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == before
