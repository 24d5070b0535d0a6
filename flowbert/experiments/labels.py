"""Names of the rows of results: the method, and the settings that differ between rows."""

import numpy as np
import pandas as pd

from flowbert.experiments.intervals import SETTINGS
from flowbert.registry import split_spec
from flowbert.text_tables import short_names

READING = ["template", "sink_token", "layers", "pooling"]
_IF_MISSING = {"template": "no template", "sink_token": "default sink_token"}

_LONG = 60  # characters of a method


def settings_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Short names of encoder, template, layers and so on of each row; empty if it has none.

    Args:
        frame: Rows of results; a column ``run`` is a setting like others.
    """
    names = [name for name in ("run", *SETTINGS) if name in frame]
    settings = frame[names].astype(str)
    # Raw is fitted on nothing: that is no other corpus.
    named = ["encoder", "layers", "pooling", "corpus"]
    settings[named] = settings[named].replace(["none", "given"], "")
    settings["template"] = [text and repr(text) for text in settings["template"]]
    short = short_names(set(settings["encoder"]))
    settings["encoder"] = settings["encoder"].map(short)
    for name, text in _IF_MISSING.items():
        is_missing = settings[name] == ""
        if not is_missing.all():
            settings.loc[is_missing & (settings["encoder"] != ""), name] = text
    return settings


def name_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Name each row by the settings that differ between rows.

    The reference is called raw. Another row without a map is named by its layers and pooling, if
    they differ from the reference; the advised method, by its layers and pooling. Supervised
    methods have a ``*``.

    Args:
        frame: Rows of results; a column ``run`` is a setting like others.

    Returns:
        Columns group (run and encoder), method, name (with other settings) and label (all of
        them), such as ``whitening (last, target)``.
    """
    settings = settings_of(frame)
    is_reference = frame["role"] == "reference"
    is_reading = (frame["method"] == "raw") & ~is_reference

    methods = _by_options(frame["method"]) + np.where(frame["supervised"], "*", "")
    readings = _name_readings(settings, is_reading, is_reference)
    methods = methods.mask(is_reading & (readings != ""), readings)

    shown = settings.copy()
    shown.loc[is_reading, READING] = ""  # the name has them
    references = settings.loc[is_reference, ["encoder", *READING]].drop_duplicates()
    if references["encoder"].is_unique:
        shown.loc[is_reference, READING] = ""

    is_advised = (frame["role"] == "advised").any()
    compared = settings if is_advised else shown
    differing = [name for name in shown if len(set(compared[name]) - {""}) > 1]
    groups = [name for name in differing if name in ("run", "encoder")]
    others = [name for name in differing if name not in groups]
    names = {
        "group": _join(shown[groups])
        if groups
        else max(settings["encoder"], default=""),
        "method": methods,
        "name": methods + _in_brackets(shown[others]),
        "label": methods + _in_brackets(shown[differing]),
    }
    # As objects: pandas cannot join empty texts of pyarrow.
    return pd.DataFrame(names, dtype=object)


def _by_options(methods: pd.Series) -> pd.Series:
    """Name long methods of one kind by the options that differ, such as ``flow, levels 3``."""
    long = [method for method in methods.unique() if len(method) > _LONG]
    parts = {method: split_spec(method, ":") for method in long}
    names = {}
    for method, (kind, *options) in parts.items():
        of_kind = [set(others) for others in parts.values() if others[0] == kind]
        shared = set.intersection(*of_kind)
        differing = [x.replace("=", " ") for x in options if x not in shared]
        if differing:
            names[method] = ", ".join([kind, *differing])
    return methods.replace(names)


def _name_readings(
    settings: pd.DataFrame, is_reading: pd.Series, is_reference: pd.Series
) -> pd.Series:
    """Name readings by their differences to the reference, such as ``layers first_last``."""
    names = settings[READING].copy()
    for name in READING:
        values = settings[name]
        if set(values[is_reading]) == set(values[is_reference]):
            names[name] = ""
        else:
            is_said = values.isin(_IF_MISSING.values())
            names[name] = values.where(is_said, f"{name} " + values)
    return _join(names)


def _join(texts: pd.DataFrame) -> pd.Series:
    """Join the texts of each row by commas; empty ones are left out."""
    joined = [", ".join(filter(None, row)) for row in texts.to_numpy(dtype=object)]
    return pd.Series(joined, texts.index, dtype=object)


def _in_brackets(texts: pd.DataFrame) -> pd.Series:
    joined = _join(texts)
    return (" (" + joined + ")").where(joined != "", "")
