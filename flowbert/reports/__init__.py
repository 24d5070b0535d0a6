"""Results for people: tables on the terminal, and the page of a run with its pictures."""

from flowbert.reports.content import content_of
from flowbert.reports.page import page_of, report, save_page
from flowbert.reports.result_tables import analysis_text, print_results

__all__ = [
    "analysis_text",
    "content_of",
    "page_of",
    "print_results",
    "report",
    "save_page",
]
