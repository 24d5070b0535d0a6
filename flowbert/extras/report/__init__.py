"""The page of results, with its pictures."""

from flowbert.extras.report.page import report
from flowbert.extras.report.reproduction import print_reproduction

__all__ = ["print_reproduction", "report"]
