"""Networks of the tests of encoders."""

from encoders.conftest import bert, tiny

__all__ = ["bert", "tiny"]
