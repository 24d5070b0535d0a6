"""Command lines, made of settings: what to run after a comparison, and after an advice."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FILES = {
    "fit": "--corpus FILE --run_dir my-model",
    "encode": "--input FILE --output vectors.npy",
}


def write_options(**options: Any) -> str:
    """Options of a command line; those of a group are a mapping, and what is None is left out.

    Example:
        >>> write_options(method="whitening", encoder={"path": "my folder", "layers": None})
        "--method whitening --encoder.path 'my folder'"
    """
    words: list[str] = []
    for name, value in options.items():
        group = {name: value}
        if isinstance(value, Mapping):
            group = {f"{name}.{key}": each for key, each in value.items()}
        for option, each in group.items():
            words += [] if each is None else [f"--{option}", str(each)]
    return shlex.join(words)


def next_commands(path: Path, record: Mapping[str, Any]) -> list[str]:
    """Commands that use what the verdicts of the first task choose; none without a verdict.

    Args:
        path: A run folder, whose model encodes and is exported if it is chosen; or a file of
            results. What has no model is fitted, or encodes as it comes.
        record: What its results say of the run.

    Returns:
        Commands after the word for the program.
    """
    gains = record.get("gains", [])
    deciding = [row for row in gains if row["task"] == gains[0]["task"]]
    used = [row for row in deciding if row["choice"] == "use"]
    commands = [_with_files(shlex.join(row.get("command", []))) for row in used]
    commands = list(filter(None, dict.fromkeys(commands)))
    if not used or used[0]["role"] == "reference" or not (path / "model").is_dir():
        return commands
    folder, chosen = (
        shlex.quote(str(path)),
        f" --method {shlex.quote(used[0]['method'])}",
    )
    if (path / "model" / "encoder").is_dir():  # a trained encoder, without a map
        head, chosen = used[0]["map"], ""
        if head != "raw":
            fit = f"fit --method {shlex.quote(head)} --encoder.path {folder}"
            return commands or [_with_files(fit)]
    return [
        _with_files(f"encode --model {folder}{chosen}"),
        f"export {folder}{chosen} --to FOLDER",
    ]


def _with_files(command: str) -> str:
    """A command and its files; empty without a command."""
    return command and f"{command} {_FILES[command.partition(' ')[0]]}"
