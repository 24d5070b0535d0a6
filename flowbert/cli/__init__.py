"""The one door: ``python train.py COMMAND ...`` or ``flowbert COMMAND ...``."""

from flowbert.cli.main import main

__all__ = ["main"]
