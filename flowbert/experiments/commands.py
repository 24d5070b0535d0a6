"""Command lines to run after a comparison or an advice, made from settings."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowbert.data.corpus import OWN_NAMES
from flowbert.options import IN_MEMORY, CompareOptions, config_of

_ENCODED = "--input FILE --output vectors.npy"


def write_options(**options: Any) -> str:
    """Options of a command line; those of a group are a mapping, and None is left out.

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
    """Commands that use the methods chosen by the first verdict; empty without a verdict.

    Args:
        path: A run folder, whose model is used if it is chosen, or a file of results; a method
            without a saved model is fitted.
        record: Metadata of the results.

    Returns:
        Commands, without the name of the program.
    """
    used, config = record.get("used", []), record.get("config", {})
    commands = [
        _fit_or_encode(row["options"], _write_corpus(row, config))
        for row in used
        if row["options"]
    ]
    is_kept = bool(used) and used[0]["role"] == "reference"
    if is_kept and commands and "advised" not in str(config.get("methods", "advised")):
        commands.insert(0, _compare_advised(used[0], config))
    if not used or is_kept or not (path / "model").is_dir():
        return list(dict.fromkeys(commands))
    method: str | None = used[0]["method"]
    if (path / "model" / "encoder").is_dir():  # a trained encoder, without a map
        head, method = used[0]["map"], None
        if head != "raw":
            fit = _fit_or_encode({"method": head, "encoder": {"path": path}})
            return commands or [fit]
    chosen = write_options(model=path, method=method)
    return [
        f"encode {chosen} {_ENCODED}",
        f"export {chosen.removeprefix('--model ')} --to FOLDER",
    ]


def _compare_advised(row: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The same comparison with the advised method, for an encoder that no other improves."""
    usual = config_of(CompareOptions(seeds=[0]))
    given = {name: x for name, x in config.items() if x != usual.get(name)}
    for name in ("encoder", "methods"):
        given.pop(name, None)
    for name, place in (("corpus", "FILE"), ("tasks", "PAIRS.csv")):
        if not _has_names(config[name]):
            given[name] = place
    return f"compare --methods raw,advised {write_options(**row['options'], **given)}"


def _has_names(value: Any) -> bool:
    """Whether an option names what it stands for, which is not in memory."""
    return isinstance(value, str) and value != IN_MEMORY


def _fit_or_encode(options: Mapping[str, Any], corpus: str = "--corpus FILE") -> str:
    """A command that fits, or encodes without a method."""
    if "method" in options:
        return f"fit {write_options(**options)} {corpus} --run_dir my-model"
    return f"encode {write_options(**options)} {_ENCODED}"


def _write_corpus(row: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Options of the corpus that a comparison used, if they are known."""
    name, tasks = row.get("corpus"), config.get("tasks")
    options = {"max_sentences": config.get("max_sentences")}
    if not _has_names(config.get("corpus")):
        return "--corpus FILE"
    if name not in OWN_NAMES:
        pairs = config["nli"] if name == "nli" else None
        options |= {"nli": pairs, "column": config["column"]}
    elif isinstance(tasks, str) and tasks != "all" and "," not in tasks:
        own = ("tasks", "senteval", "columns")
        options |= {option: config[option] for option in own}
    else:  # each task had its own
        name = "FILE"
    return write_options(corpus=name, **options)
