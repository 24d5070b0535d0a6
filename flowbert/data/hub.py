"""Columns of a data set from the Hugging Face hub, or from a local folder laid out in the same way."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from flowbert.data.readers import arrow_columns
from flowbert.data.table import Layouts, Table, choose_columns
from flowbert.errors import UserError, choices
from flowbert.notices import hub_bars

_OPTIONS = ("config", "split", "revision", "data_files")


def read_hub(
    name: str,
    layouts: Layouts = (),
    *,
    config: str | None = None,
    split: str = "train",
    revision: str | None = None,
    data_files: str | None = None,
) -> Table:
    """Read columns of one split with ``datasets.load_dataset``, which runs no code of the data set.

    Args:
        name: Hub name (``owner/name``) or a local folder in the same layout.
        layouts: As in :func:`flowbert.data.readers.read_table`.
        config: Configuration, where the data set has several.
        split: Split.
        revision: Commit, tag or branch of the hub repository.
        data_files: File in the repository to read in place of the declared splits, e.g. ``wiki1m_for_simcse.txt``.

    Raises:
        UserError: If the data set, configuration, split or column is not there, or the hub cannot be reached.
    """
    data, names = open_hub(name, config=config, split=split, revision=revision, data_files=data_files)
    columns = choose_columns(names, layouts, f"hub data set {name!r}")
    return arrow_columns(Path(name), data.select_columns(list(columns)).with_format("arrow")[:], columns)


def open_hub(
    name: str, *, config: str | None = None, split: str = "train", streaming: bool = False, **options: str | None
) -> tuple[Any, list[str]]:
    """One split of a data set, and the names of its columns; with ``streaming`` its rows are not there yet.

    Raises:
        UserError: If it cannot be had.
    """
    import datasets

    local = Path(name).expanduser()
    try:
        with hub_bars():
            path = str(local) if local.is_dir() else name
            data = datasets.load_dataset(path, config, split=split, streaming=streaming, **options)
            return data, data.column_names or list(next(iter(data)))
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"hub data set {name!r} (config {config}, split {split}, file {options.get('data_files')}) cannot be "
            f"loaded: {reason}; offline, give a local folder in the same layout"
        ) from error


def hub_options(source: str) -> tuple[str, dict[str, str]]:
    """Name and options of ``hub:NAME?option=value&...``.

    Raises:
        UserError: If an option is unknown.

    Example:
        >>> hub_options("hub:owner/name?split=test")
        ('owner/name', {'split': 'test'})
    """
    name, _, query = source.removeprefix("hub:").partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for option in options:
        if option not in _OPTIONS:
            raise UserError(
                f"corpus: received {source!r} with the unknown option {option!r}; {choices(_OPTIONS, option)}"
            )
    return name, options


def hub_name(source: str | Path) -> str | None:
    """What a source means on the hub: NAME of ``hub:NAME``, empty for ``hub`` alone; None if it is none of these.

    Example:
        >>> hub_name("hub:owner/name"), hub_name("hub"), hub_name("data/hub.csv")
        ('owner/name', '', None)
    """
    kind, _, name = str(source).partition(":")
    return name if kind == "hub" else None
