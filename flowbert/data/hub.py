"""Models and data sets of the Hugging Face hub, and local copies of data sets."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from flowbert.data.text_files import find_missing, user_path
from flowbert.errors import UserError, first_line

if TYPE_CHECKING:  # slow to import
    import pandas as pd


def hub_name(source: str | Path) -> str | None:
    """NAME of ``hub:NAME``, empty for ``hub``; None for anything else.

    Example:
        >>> hub_name("hub:owner/name"), hub_name("hub"), hub_name("data/hub.csv")
        ('owner/name', '', None)
    """
    kind, _, name = str(source).partition(":")
    return name if kind == "hub" else None


def fetch_encoder(
    name: str,
    revision: str | None,
    patterns: Sequence[str],
    argument: str,
) -> Path:
    """Download files of a model; returns its folder in the cache.

    Args:
        name: ``owner/name``, or ``owner/name@revision``.
        revision: Commit, branch or tag.
        patterns: Files to fetch.
        argument: Name of the argument, for the message.

    Raises:
        UserError: If the model is neither on the hub nor in its cache.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

    model, _, named = name.partition("@")
    options: dict[str, Any] = {
        "revision": revision or named or None,
        "allow_patterns": list(patterns),
    }
    try:
        try:
            fetched = snapshot_download(model, **options)
        except OfflineModeIsEnabled:
            # Releases 1 look up the files of a commit, though they are cached.
            fetched = snapshot_download(model, local_files_only=True, **options)
    # Not a name, no such model or revision, private, offline and not cached, no space left, ...
    except Exception as error:
        missing, similar = find_missing(user_path(name).absolute())
        reason = f"folder {missing} does not exist{similar}"
        if not similar and not isinstance(error, HFValidationError):
            reason = first_line(error)
        raise UserError(
            argument=argument,
            received=name,
            expected=f"a folder, or a model on the hub or in its cache ({reason})",
        ) from error
    return Path(fetched)


def read_hub(
    source: str, *layouts: Sequence[str], split: str = "train"
) -> "pd.DataFrame":
    """Read columns of one split with ``datasets``, which runs no code of the data set.

    Args:
        source: Name on the hub (``owner/name``) or a local folder in the same layout, with options
            as in ``NAME?config=C&split=S``: the configuration of a data set that has several, the
            split, the ``revision``, or ``data_files`` to read in place of the declared splits.
        layouts: As in :func:`flowbert.data.tables.read_frame`.
        split: Name of the split, if the options do not have it.

    Raises:
        UserError: If the data set, configuration, split or column is missing, or the hub cannot be
            reached.
    """
    import datasets

    from flowbert.data.tables import choose_columns, from_arrow, make_frame

    name, _, query = source.partition("?")
    options = {"config": None, "split": split} | dict(parse_qsl(query))
    local = user_path(name)
    path = str(local) if local.is_dir() else name
    try:
        data = datasets.load_dataset(path, options.pop("config"), **options)
    # No such data set, split or file, damaged, private, offline, ...
    except Exception as error:
        raise UserError(
            f"hub:{name} (split {options['split']}) cannot be loaded: "
            f"{error or type(error).__name__}; offline, give hub:FOLDER, a local folder in the "
            "same layout"
        ) from error
    columns = choose_columns(data.column_names, layouts, local)
    table = data.select_columns(list(columns)).with_format("arrow")[:]
    return make_frame(local, from_arrow(table), layouts)
