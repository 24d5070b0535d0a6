"""The page of a run, or over several."""

from collections.abc import Sequence
from pathlib import Path

from flowbert.errors import UserError
from flowbert.report.page.of_run import write_run_page
from flowbert.report.page.of_runs import write_runs_page


def write_report(runs: str | Path | Sequence[str | Path], output: str | Path | None = None) -> Path:
    """Write the page of one run, finished or not, or one page over several that says what differs in their settings.

    Nothing is encoded or fitted: a page is made from the files of its runs.

    Args:
        runs: A run folder of ``fit`` or its name on the hub, or a results file of ``evaluate``; or several of them.
        output: The page over several runs, or of one on the hub, ending in .html; its pictures lie beside it. The page
            of one run here lies with the run: ``report.html`` in a folder, FILE.html beside FILE.json.

    Returns:
        Where the page is.

    Raises:
        UserError: If a path is no run, a file is damaged, or ``output`` does not fit the number of runs.

    Example:
        >>> import tempfile
        >>> from flowbert import compare
        >>> results = Path(tempfile.mkdtemp()) / "results.json"
        >>> found = compare(methods="raw,standardization", max_sentences=300, bootstrap=100, output=results)
        >>> write_report(results).name
        'results.html'
    """
    paths = [runs] if isinstance(runs, str | Path) else list(runs)
    if not paths:
        raise UserError("runs: received none; allowed: run folders and results files")
    if len(paths) == 1 and Path(paths[0]).expanduser().exists():
        if output is not None:
            raise UserError(f"output: received {output}; allowed with one run here: nothing, its page lies with it")
        return write_run_page(paths[0])
    output = Path("comparison.html" if output is None else output)
    if output.suffix != ".html":
        raise UserError(f"output: received {output}; allowed: a name that ends in .html")
    return write_run_page(paths[0], output) if len(paths) == 1 else write_runs_page(paths, output)
