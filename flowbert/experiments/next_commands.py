"""Commands that use what the verdicts choose."""

import shlex
from ast import literal_eval
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from flowbert.experiments.labels import encoder_parts
from flowbert.experiments.plan import ADVISED, UNMAPPED
from flowbert.maps import is_map

_OF_NO_NETWORK = ("", "none", "own", "words")  # layers and poolings that are no options


def next_commands(path: Path, record: Mapping[str, Any]) -> list[str]:
    """Commands that use what the verdicts of the first task choose; none without a verdict.

    Args:
        path: A run folder, whose model encodes and is exported if it is chosen; or a file of
            results. What has no model is fitted, or encodes as it is.
        record: What its results say of the run.

    Returns:
        Commands after the word for the program.
    """
    gains = record.get("gains", [])
    deciding = [row for row in gains if row["task"] == gains[0]["task"]]
    best = [row for row in deciding if row["choice"] == "use"]
    commands = list(dict.fromkeys(filter(None, map(_command, best))))
    if not best or not (path / "model").is_dir():
        return commands
    method = best[0]["method"].replace(UNMAPPED, "raw")
    first, _, mapped = method.partition("+")
    if (path / "model" / "encoder").is_dir():  # a trained encoder, without a map
        if is_map(first):
            return commands
        if mapped:
            words = ["--method", mapped, "--encoder.path", path, "--corpus", "FILE"]
            return [shlex.join(map(str, ["fit", *words]))]
        which = []
    elif best[0]["method"] == "raw" and any(x["method"] == UNMAPPED for x in deciding):
        return commands  # the model reads the network otherwise
    else:
        which = ["--method", method]
    encode = ["encode", "--model", path, *which, "--input", "FILE", "--output"]
    export = ["export", path, *which, "--to", "FOLDER"]
    return [shlex.join(map(str, words)) for words in ([*encode, "vectors.npy"], export)]


def _command(row: Mapping[str, Any]) -> str:
    """The command that fits the map of a row of ``gains``, or encodes without one.

    Empty for other methods than maps, and for views.
    """
    method = row["method"].removeprefix(f"{ADVISED}: ")
    is_plain = method in ("raw", UNMAPPED)
    is_views = " | " in row["layers"]
    if row["supervised"] or is_views or not (is_plain or is_map(method)):
        return ""
    words = ["encode"] if is_plain else ["fit", "--method", method]
    (parts,) = encoder_parts(pd.Series(row["encoder"])).to_dict("records")
    words += ["--encoder.path", parts.pop("encoder")]
    for name in ("layers", "pooling") if method != "raw" else ():
        if row[name] not in _OF_NO_NETWORK:
            words += [f"--encoder.{name}", row[name]]
    for name, text in parts.items():
        words += [f"--encoder.{name}", literal_eval(text)] if pd.notna(text) else []
    if is_plain:
        return shlex.join([*words, "--input", "FILE", "--output", "vectors.npy"])
    return shlex.join([*words, "--corpus", "FILE", "--run_dir", "my-model"])
