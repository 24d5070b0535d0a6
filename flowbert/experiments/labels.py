"""Names of the rows of results: a method, and the settings in which rows differ."""

import pandas as pd

from flowbert.experiments.intervals import SETTINGS
from flowbert.text_tables import short_names

READING = ["template", "sink_token", "layers", "pooling"]
_IF_MISSING = {"template": "no template", "sink_token": "default sink_token"}


def settings_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Short name of the encoder, template, layers and so on of each row; empty where it has none.

    Args:
        frame: Rows of results; a column ``run`` is a setting like others.
    """
    names = [name for name in ("run", *SETTINGS) if name in frame]
    settings = frame[names].astype(str)
    # Raw is fitted on nothing: that is no other corpus.
    named = ("encoder", "layers", "pooling", "corpus")
    unset = {name: ["none", "given"] for name in named}
    settings = settings.replace(unset, "")
    settings["template"] = [text and repr(text) for text in settings["template"]]
    short = short_names(set(settings["encoder"]) - {""})
    settings["encoder"] = [short.get(path, "") for path in settings["encoder"]]
    for name, text in _IF_MISSING.items():
        is_missing = settings[name] == ""
        if not is_missing.all():
            settings.loc[is_missing & (settings["encoder"] != ""), name] = text
    return settings


def label_parts(frame: pd.DataFrame, settings: pd.DataFrame) -> pd.DataFrame:
    """Parts of the name of each row: a column for each setting that differs, and the method.

    The reference is raw; what is not mapped otherwise is named by its layers and pooling, as far
    as they differ from those. What is advised is named with its own. Supervised methods have a
    ``*``.

    Args:
        frame: Rows of results.
        settings: Their settings, of ``settings_of``.
    """
    methods = frame["method"].where(
        ~frame["supervised"].astype(bool), frame["method"] + "*"
    )
    is_reference = frame["role"] == "reference"
    is_other = (frame["method"] == "raw") & ~is_reference
    names = _name_readings(settings, is_other, is_reference)
    methods = methods.mask(is_other & (names != ""), names)
    named = settings.copy()
    named.loc[is_other, READING] = ""
    references = settings.loc[is_reference, ["encoder", *READING]].drop_duplicates()
    if references["encoder"].is_unique:
        named.loc[is_reference, READING] = ""
    compared = settings if "advised" in set(frame["role"]) else named
    differs = [name for name in named if len(set(compared[name]) - {""}) > 1]
    return named[differs].assign(method=methods)


def _name_readings(
    settings: pd.DataFrame, is_other: pd.Series, is_reference: pd.Series
) -> pd.Series:
    """Names of readings by what differs from the reference, such as ``layers first_last``."""
    names = pd.Series("", settings.index)
    for name in READING:
        values = settings[name]
        if set(values[is_other]) != set(values[is_reference]):
            is_said = values.isin(_IF_MISSING.values())
            names += ", " + values.where(is_said, f"{name} " + values)
    return names.str.removeprefix(", ")


def join_parts(parts: pd.DataFrame) -> pd.Series:
    """The texts of each row, separated by commas; empty ones are left out."""
    rows = parts.to_numpy(dtype=object)
    return pd.Series([", ".join(filter(None, row)) for row in rows], parts.index)


def name_rows(parts: pd.DataFrame) -> pd.Series:
    """Names such as ``whitening (last, target)`` of some of the :func:`label_parts`."""
    details = join_parts(parts.drop(columns="method"))
    return parts["method"] + (" (" + details + ")").where(details != "", "")


def labels(frame: pd.DataFrame) -> pd.Series:
    """Name of each row: its method, and the settings that differ between the rows."""
    return name_rows(label_parts(frame, settings_of(frame)))
