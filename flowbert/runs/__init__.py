"""What the command line offers, one call each, for use from Python."""

from flowbert.runs.compare import compare

__all__ = ["compare"]
