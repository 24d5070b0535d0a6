"""Commands that use what the verdicts choose."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowbert.maps import is_map

_FILES = {
    "fit": ["--corpus", "FILE", "--run_dir", "my-model"],
    "encode": ["--input", "FILE", "--output", "vectors.npy"],
}


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
    used = [row for row in deciding if row["choice"] == "use"]
    if not used:
        return []
    commands = dict.fromkeys(filter(None, map(command_of, used)))
    model, (first, *_) = path / "model", used
    if not model.is_dir():
        return list(commands)
    if (model / "encoder").is_dir():  # a trained encoder, without a map
        if is_map(first["method"]):
            return list(commands)
        if first["map"] != "raw":
            words = ["fit", "--method", first["map"], "--encoder.path", str(path)]
            return [shlex.join([*words, "--corpus", "FILE"])]
        chosen = []
    elif first["role"] == "reference" and "reading" in [x["role"] for x in deciding]:
        return list(commands)  # the model reads the network otherwise
    else:
        chosen = ["--method", first["method"]]
    encode = ["encode", "--model", str(path), *chosen, "--input", "FILE", "--output"]
    export = ["export", str(path), *chosen, "--to", "FOLDER"]
    return [shlex.join([*encode, "vectors.npy"]), shlex.join(export)]


def command_of(row: Mapping[str, Any]) -> str:
    """The command that fits the map of a row of ``gains``, or encodes without one."""
    words = row.get("command")
    return shlex.join([*words, *_FILES[words[0]]]) if words else ""
