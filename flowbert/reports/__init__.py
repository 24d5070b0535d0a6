"""Results for people: tables on the terminal, pictures, and the page of a run."""

from flowbert.reports.page import report
from flowbert.reports.tables import print_results

__all__ = ["print_results", "report"]
