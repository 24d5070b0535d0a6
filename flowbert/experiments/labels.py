"""Names of the rows of results: a method, and the settings in which rows differ."""

import numpy as np
import pandas as pd

from flowbert.experiments.plan import ADVISED, UNMAPPED
from flowbert.text_tables import short_names

_ENCODER = (
    "(?s)(?P<encoder>.*?)(?:; template (?P<template>.*?))?"
    "(?:; sink_token (?P<sink_token>.*))?$"
)
_IF_MISSING = {"template": "no template", "sink_token": "default sink_token"}
_READING = [*_IF_MISSING, "layers", "pooling"]
_SETTINGS = ["run", "encoder", *_READING, "corpus"]
_UNSET = ("", "none", "given")  # raw is fitted on nothing: that is no other corpus


def encoder_parts(column: pd.Series) -> pd.DataFrame:
    """Columns encoder (its path), template and sink_token (in quotation marks, or NaN).

    Args:
        column: Column ``encoder`` of results.
    """
    return column.str.extract(_ENCODER)


def settings_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Short name of the encoder, template, layers and so on of each row; NaN where it has none.

    Args:
        frame: Rows of results; a column ``run`` is a setting like others.
    """
    settings = frame.assign(**encoder_parts(frame["encoder"])).astype(object)
    settings = settings[[name for name in _SETTINGS if name in settings]]
    settings = settings.where(~settings.isin(_UNSET))
    for name, text in _IF_MISSING.items():
        if settings[name].notna().any():
            settings[name] = (
                settings[name].fillna(text).where(settings["encoder"].notna())
            )
    names = short_names(settings["encoder"].dropna())
    return settings.assign(encoder=settings["encoder"].map(names))


def label_parts(frame: pd.DataFrame, settings: pd.DataFrame) -> pd.DataFrame:
    """Parts of the name of each row: a column for each setting that differs, and the method.

    What is not mapped is named by its layers and pooling, as far as they are not those of raw,
    which is the encoder as it comes. What is advised is named with its own. Supervised methods
    have a ``*``.

    Args:
        frame: Rows of results.
        settings: Their settings, of :func:`settings_of`.
    """
    known = settings.copy()
    methods = frame["method"] + frame["supervised"].map({True: "*", False: ""})
    raw, unmapped = frame["method"] == "raw", frame["method"] == UNMAPPED
    readings = settings[["encoder", *_READING]].fillna("none")
    if unmapped.any():
        names = pd.Series("", frame.index)
        for name in _READING:
            if set(readings[name][unmapped]) != set(readings[name][raw]):
                names += f", {name} " + readings[name]
        methods = methods.mask(unmapped, names.str.removeprefix(", "))
        known.loc[unmapped, _READING] = np.nan
    if len(readings[raw].drop_duplicates()) == readings["encoder"][raw].nunique():
        known.loc[raw, _READING] = np.nan
    is_advised = frame["method"].str.startswith(f"{ADVISED}:").any()
    differs = (settings if is_advised else known).nunique() > 1
    return known.loc[:, differs].fillna("").assign(method=methods)


def join_parts(parts: pd.DataFrame) -> pd.Series:
    """The texts of each row, separated by commas; empty ones are left out."""
    text = pd.Series("", parts.index)
    for column in parts:
        text += (", " + parts[column]).where(parts[column] != "", "")
    return text.str.removeprefix(", ")


def name_rows(parts: pd.DataFrame) -> pd.Series:
    """Names such as ``whitening (last, target)`` of some of the :func:`label_parts`."""
    details = join_parts(parts.drop(columns="method"))
    return parts["method"] + (" (" + details + ")").where(details != "", "")


def labels(frame: pd.DataFrame) -> pd.Series:
    """Name of each row: its method, and the settings that differ between the rows."""
    return name_rows(label_parts(frame, settings_of(frame)))
