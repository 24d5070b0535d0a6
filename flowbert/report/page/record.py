"""What a run left behind: everything that a page is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from flowbert.analysis.found import Analysis
from flowbert.errors import UserError
from flowbert.evaluation.code import code_digest
from flowbert.evaluation.results import Row, load_results
from flowbert.io.digest import digest_file, digest_json
from flowbert.io.json_file import read_json
from flowbert.io.metrics_file import read_metrics
from flowbert.io.run_folder import RunFolder

_ON_HUB = ("config.yaml", "metrics.csv", "results.json", "analysis.json")  # what is read of a run
_ALLOWED = "allowed: the folder of a fit, its name on the hub, or the results file of an evaluation"


@dataclass(frozen=True)
class RunRecord:
    """A run folder, or a results file of ``evaluate`` with what lies beside it.

    Attributes:
        path: The folder, or the results file.
        rows: Its figures; none where a run did not get so far.
        earlier: Figures of earlier runs that the results file holds, too.
        fingerprint: What they depend on besides their rows.
        options: What the run was asked for: option -> value.
        metrics: What was logged on the way, as :func:`flowbert.io.metrics_file.read_metrics` gives it.
        analysis: What was found in its embeddings, if anything was measured.
        on_hub: Its name on the hub, if it came from there.
    """

    path: Path
    rows: Sequence[Row]
    earlier: Sequence[Row]
    fingerprint: Mapping[str, Any]
    options: Mapping[str, Any]
    metrics: Sequence[Mapping[str, str]]
    analysis: Analysis | None
    on_hub: str = ""

    @classmethod
    def read(cls, path: str | Path) -> "RunRecord":
        """Read what is there.

        Args:
            path: The folder of a run or its name on the hub, or a results file.

        Raises:
            UserError: If there is nothing of a run, or a file is damaged.
        """
        asked, path = str(path), Path(path)
        if path.is_file():
            rows, fingerprint = load_results(path)
            mine = fingerprint.get("rows", len(rows))
            return cls(path, rows[:mine], rows[mine:], fingerprint, {}, (), _analysis(analysis_file(path)))
        if path.suffix == ".json":
            raise UserError(f"{path}: no such file; {_ALLOWED}")
        run = RunFolder.find(path, _ON_HUB)
        if not (run.results.is_file() or run.metrics.is_file()):
            raise UserError(f"{path}: neither {run.results.name} nor {run.metrics.name} in it; {_ALLOWED}")
        rows, fingerprint = load_results(run.results) if run.results.is_file() else ([], {})
        options = flattened(_yaml(run.config)) if run.config.is_file() else {}
        on_hub = "" if path.expanduser().exists() else asked
        return cls(run.path, rows, (), fingerprint, options, read_metrics(run.metrics), _analysis(run.analysis), on_hub)

    @property
    def place(self) -> str:
        """Its name on the hub, or its full path."""
        return self.on_hub or str(self.path.resolve())

    @property
    def name(self) -> str:
        """Its name on the hub, or the last part of its path that says something."""
        path = self.path.resolve()
        return self.on_hub or (path.stem if path.is_file() else "/".join(path.parts[-2:]))

    @property
    def drawn_from(self) -> str:
        """Digest of all that its pictures depend on: everything but when and by which words it was asked for."""
        told = {name: value for name, value in self.fingerprint.items() if name not in ("time", "command")}
        return digest_json([*_drawn_by(), repr(replace(self, fingerprint=told))], compact=True)

    @property
    def finished(self) -> bool:
        """Whether there are the figures of the end."""
        return bool(self.fingerprint.get("finished", self.rows))


@cache
def _drawn_by() -> list[str]:
    """Digests of what draws a picture: matplotlib's version, and the sources of this package."""
    return [version("matplotlib"), code_digest(), *map(digest_file, sorted(Path(__file__).parents[1].rglob("*.py")))]


def flattened(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            found |= flattened(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def analysis_file(path: Path) -> Path:
    """Where the analysis of a run folder, or of a results file, lies."""
    return path.with_suffix(".analysis.json") if path.suffix == ".json" else RunFolder(path).analysis


def page_file(path: Path) -> Path:
    """Where the page of a run folder, or of a results file, lies."""
    return path.with_suffix(".html") if path.suffix == ".json" else RunFolder(path).report


def figures_folder(path: Path) -> Path:
    """Where the pictures of a run folder, or of a results file, lie."""
    return path.with_suffix(".figures") if path.suffix == ".json" else RunFolder(path).figures


def _analysis(path: Path) -> Analysis | None:
    if not path.is_file():
        return None
    needed = "what flowbert wrote, or no such file"
    content = read_json(path, needed=needed)
    try:
        return Analysis.from_json(content)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: damaged ({error}); needed: {needed}") from error


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        return dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (UnicodeDecodeError, yaml.YAMLError, TypeError, ValueError) as error:
        raise UserError(f"{path}: damaged ({' '.join(str(error).split())}); allowed: a config of a fit") from error
