"""Commands that use what results recommend."""

import re
import shlex
from ast import literal_eval
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowbert.experiments.intervals import ENCODER_PARTS
from flowbert.experiments.plan import ADVISED, UNMAPPED
from flowbert.maps import is_map


def next_commands(path: Path, record: Mapping[str, Any]) -> list[str]:
    """Commands that encode with the method of the first verdict, and export it.

    Args:
        path: A run folder; of a file of results, which has no model, the command that fits one.
        record: What its results say of the run.

    Returns:
        Commands after the word for the program; to fit the map, where one of a trained encoder is
        best. None without a verdict, or where the untrained encoder is better.
    """
    gains = record.get("gains", [])
    deciding = [row for row in gains if row["task"] == gains[0]["task"]]
    best = [row for row in deciding if row["choice"] == "use"]
    if path.suffix == ".json":
        return list(dict.fromkeys(filter(None, map(_fit_command, best))))
    if not best or not (path / "model").is_dir():
        return []
    method = best[0]["method"].replace(UNMAPPED, "raw")
    methods = [row["method"] for row in deciding]
    if best[0]["method"] == "raw" and UNMAPPED in methods:  # read as its folder says
        words = ["--encoder.path", _parts(best[0])["encoder"], "--input", "FILE"]
        return [shlex.join(["encode", *words, "--output", "vectors.npy"])]
    is_trained = (path / "model" / "encoder").is_dir()
    if is_trained:
        first, _, mapped = method.partition("+")
        if is_map(first):  # of the untrained encoder
            return []
        if mapped:  # the folder has no map
            words = ["--method", mapped, "--encoder.path", path, "--corpus", "FILE"]
            return [shlex.join(map(str, ["fit", *words]))]
    which = [] if is_trained else ["--method", method]
    encode = ["encode", "--model", path, *which, "--input", "FILE", "--output"]
    export = ["export", path, *which, "--to", "FOLDER"]
    return [shlex.join(map(str, words)) for words in ([*encode, "vectors.npy"], export)]


def _parts(row: Mapping[str, Any]) -> dict[str, Any]:
    """The encoder of a row, and its template and sink as they are written there, or None."""
    match = re.match(ENCODER_PARTS, row["encoder"])
    assert match is not None
    return match.groupdict()


def _fit_command(row: Mapping[str, Any]) -> str:
    """The command that fits the map of a row of ``gains``; empty for other methods than maps."""
    method = row["method"].removeprefix(f"{ADVISED}: ")
    if row["supervised"] or not is_map(method):
        return ""
    words = ["fit", "--method", method]
    parts = _parts(row)
    words += ["--encoder.path", parts.pop("encoder")]
    for name in ("layers", "pooling"):
        words += (
            [f"--encoder.{name}", row[name]] if row[name] not in ("", "none") else []
        )
    for name, text in parts.items():
        words += [f"--encoder.{name}", literal_eval(text)] if text else []
    return shlex.join([*words, "--corpus", "FILE", "--run_dir", "my-model"])
