"""The page of results, with its pictures."""

from flowbert.extras.report.page import report, save_report
from flowbert.extras.report.reproduction import reproduction_text

__all__ = ["report", "reproduction_text", "save_report"]
