"""Whether an encoder of the user is the published one of a row: by its name and its sizes."""

import csv
from importlib.resources import files
from pathlib import Path

from flowbert.encoders.files import locate, read_settings
from flowbert.io import read_json

IS_COPY = "taken, by its name and sizes, for the published encoder"
OTHER_NAME = "in place of the published encoder"


def published_sizes() -> dict[str, dict[str, str]]:
    """Model type, layers, dimensions and vocabulary of the published encoders, by hub name."""
    file = files("flowbert.experiments") / "published_data" / "encoders.csv"
    with file.open(encoding="utf-8") as lines:
        return {row.pop("path"): row for row in csv.DictReader(lines)}


def describe_copy(encoder: str, published: str) -> str:
    """What an encoder is to the published one: :data:`IS_COPY`, or why it is none.

    A folder has the published encoder's own name; one in the hub's cache has the name under which
    it was fetched. ``_name_or_path`` in its config is not asked: it may name what the encoder was
    fine-tuned from.

    Args:
        encoder: Folder, run folder, text file of word vectors, or hub name.
        published: Hub name of the published encoder; empty for word vectors.
    """
    folder = Path(encoder).expanduser().absolute()
    if not published or folder.is_file():
        return OTHER_NAME
    owner_and_name = hub_name(folder)
    if folder.exists() and not owner_and_name:
        same_name = folder.name == published.rpartition("/")[2]
    else:
        same_name = (owner_and_name or encoder.partition("@")[0]) == published
    if not same_name:
        return OTHER_NAME
    location = locate(encoder).folder
    if read_settings(location).trained:
        return f"{OTHER_NAME}, though named like it: it was trained here"
    wanted = published_sizes()[published]
    config = read_json(location / "config.json")
    for name, value in wanted.items():
        if str(config.get(name)) != value:
            return (
                f"{OTHER_NAME}, though named like it: its {name} is {config.get(name)}, not "
                f"{value}"
            )
    return IS_COPY


def hub_name(folder: Path) -> str:
    """Name of a snapshot in the hub's cache, ``models--OWNER--NAME/snapshots/COMMIT``; else empty.

    Example:
        >>> hub_name(Path("models--google-bert--bert-base-uncased/snapshots/86b5e09"))
        'google-bert/bert-base-uncased'
    """
    parts = folder.resolve().parts
    if len(parts) < 3 or parts[-2] != "snapshots":
        return ""
    kind, *name = parts[-3].split("--")
    return "/".join(name) if kind == "models" else ""
