"""Pages at the end of runs: results are on disk by then, and nothing here can lose them."""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

from flowbert.analysis.found import Analysis
from flowbert.errors import FlowbertWarning
from flowbert.report.files import write_text
from flowbert.report.page.of_run import write_run_page
from flowbert.report.page.record import analysis_file


def pages_are_written() -> bool:
    """Whether runs end in a page: not with ``FLOWBERT_REPORT=0`` in the environment."""
    return os.environ.get("FLOWBERT_REPORT") != "0"


def write_page(path: Path, analysis: Callable[[], Analysis | None] = lambda: None) -> None:
    """Write analysis and page of a run, if pages are written; what goes wrong is a warning.

    Args:
        path: The run folder or results file.
        analysis: What looks into the embeddings; None finds nothing.
    """
    file = analysis_file(path)
    file.unlink(missing_ok=True)  # an earlier run's is of other figures
    if not pages_are_written():
        return
    for step in (lambda: _write_analysis(file, analysis()), lambda: write_run_page(path)):
        try:
            step()
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            warnings.warn(f"{path}: no whole page ({reason}); its results are written", FlowbertWarning, stacklevel=2)


def _write_analysis(file: Path, found: Analysis | None) -> None:
    if found is not None:
        write_text(file, json.dumps(found.as_json(), ensure_ascii=False, allow_nan=False))
