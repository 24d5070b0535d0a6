"""Command lines to run next, made from settings."""

import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from flowbert.data.corpus import OWN_NAMES
from flowbert.options import IN_MEMORY, CompareOptions, EncoderOptions, config_of

_VECTORS = {"input": "FILE", "output": "vectors.npy"}


def write_command(*words: Any, **options: Any) -> str:
    """A command line; options of a group are a mapping, and None is left out.

    Example:
        >>> encoder = {"path": "my folder", "layers": None}
        >>> write_command("fit", method="whitening", encoder=encoder)
        "fit --method whitening --encoder.path 'my folder'"
    """
    line = [*words]
    for name, value in options.items():
        group = {name: value}
        if isinstance(value, Mapping):
            group = {f"{name}.{key}": item for key, item in value.items()}
        for option, item in group.items():
            line += [] if item is None else [f"--{option}", item]
    return shlex.join(map(str, line))


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
    if not used:
        return []
    commands = [
        _fit_or_encode(row["options"], _corpus_options(row, config))
        for row in used
        if row["options"]
    ]
    first = used[0]
    if first["role"] == "reference":
        is_tried = "advised" in str(config.get("methods", "advised"))
        # There is no advice for word vectors.
        if commands and not is_tried and first.get("layers") != "words":
            commands.insert(0, _compare_advised(first, config))
    elif (path / "model").is_dir():
        return _use_model(path, first, commands)
    return list(dict.fromkeys(commands))


def _use_model(path: Path, row: Mapping[str, Any], fits: list[str]) -> list[str]:
    """Commands that use the model of a run, or fit a map on the encoder that it trained."""
    method: str | None = row["method"]
    if (path / "model" / "encoder").is_dir():
        if row["map"] != "raw":
            head = {"method": row["map"], "encoder": {"path": path}}
            return fits or [_fit_or_encode(head, {"corpus": "FILE"})]
        method = None
    return [
        write_command("encode", model=path, method=method, **_VECTORS),
        write_command("export", path, method=method, to="FOLDER"),
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
    return write_command("compare", methods="raw,advised", **row["options"], **given)


def _has_names(value: Any) -> bool:
    """Whether an option names what it stands for, which is not in memory."""
    return isinstance(value, str) and value != IN_MEMORY


def _fit_or_encode(options: Mapping[str, Any], corpus: Mapping[str, Any]) -> str:
    """A command that fits on a corpus, or encodes without a method."""
    # Those of a record are sorted by name.
    names = [field.name for field in fields(EncoderOptions)]
    encoder = {name: options["encoder"].get(name) for name in names}
    if "method" not in options:
        return write_command("encode", encoder=encoder, **_VECTORS)
    fit = {"method": options["method"], "encoder": encoder, **corpus}
    return write_command("fit", **fit, run_dir="my-model")


def _corpus_options(
    row: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Options of the corpus that a comparison used, if they are known."""
    name, tasks = row.get("corpus"), config.get("tasks")
    if not _has_names(config.get("corpus")):
        return {"corpus": "FILE"}
    options = {"max_sentences": config["max_sentences"]}
    options["seed"] = config["seeds"][0] or None
    if name not in OWN_NAMES:
        pairs = config["nli"] if name == "nli" else None
        options |= {"nli": pairs, "column": config["column"]}
    elif isinstance(tasks, str) and tasks != "all" and "," not in tasks:
        own = ("tasks", "senteval", "columns", "score_range", "skip_invalid")
        options |= {option: config[option] or None for option in own}
    else:  # each task had its own
        name = "FILE"
    return {"corpus": name, **options}
