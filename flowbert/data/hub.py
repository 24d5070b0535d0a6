"""Columns of a data set from the Hugging Face hub, or from a local folder laid out in the same way."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flowbert.data.readers import Table, first_bad_row, unreadable_value
from flowbert.errors import UserError, choices


def read_hub(
    name: str,
    columns: Sequence[str] | None = None,
    *,
    config: str | None = None,
    split: str = "train",
    revision: str | None = None,
    data_files: str | None = None,
) -> Table:
    """Read columns of one split with ``datasets.load_dataset``, which runs no code of the data set.

    Args:
        name: Hub name (``owner/name``) or a local folder in the same layout.
        columns: Columns to keep; ``None`` takes the only one there is.
        config: Configuration, where the data set has several.
        split: Split.
        revision: Commit, tag or branch of the hub repository.
        data_files: File in the repository to read in place of the declared splits, e.g. ``wiki1m_for_simcse.txt``.

    Raises:
        UserError: If the data set, configuration, split or column is not there, or the hub cannot be reached.
    """
    data = _load(name, config, split, revision, data_files)
    names = list(data.column_names)
    if columns is None:
        if len(names) != 1:
            raise UserError(f"hub data set {name!r}: choose a column; {choices(names, '')}")
        columns = names
    for column in columns:
        if column not in names:
            raise UserError(f"hub data set {name!r}: no column {column!r}; {choices(names, column)}")
    kept = {column: _values(name, column, data) for column in columns}
    return Table(Path(name), kept, range(1, data.num_rows + 1))


def _values(name: str, column: str, data: Any) -> list[object]:
    try:
        return list(data[column])
    except (ValueError, ArithmeticError) as error:
        alone = data.select_columns([column])
        row = first_bad_row(lambda row: alone[row], data.num_rows)
        raise UserError(f"hub data set {name!r}, row {row}: column {column!r} {unreadable_value(error)}") from error


def _load(name: str, config: str | None, split: str, revision: str | None, data_files: str | None) -> Any:
    import datasets

    local = Path(name).expanduser()
    try:
        return datasets.load_dataset(
            str(local) if local.is_dir() else name, config, split=split, revision=revision, data_files=data_files
        )
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"hub data set {name!r} (config {config}, split {split}, file {data_files}) cannot be loaded: {reason}; "
            "offline, give a local folder in the same layout"
        ) from error
