"""Results for people: tables on the terminal, and the page of a run with its pictures."""

from flowbert.reports.content import content_of, next_commands
from flowbert.reports.page import page_of, report, save_page
from flowbert.reports.reproduction import reproduction_text
from flowbert.reports.result_tables import analysis_text, print_results

__all__ = [
    "analysis_text",
    "content_of",
    "next_commands",
    "page_of",
    "print_results",
    "report",
    "reproduction_text",
    "save_page",
]
