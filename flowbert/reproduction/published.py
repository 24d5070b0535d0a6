"""The published figures, the exact setting of each row, and the ambiguities with the reading taken."""

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from flowbert.data.sts import TASKS
from flowbert.errors import UserError, choices

_FOLDER = "published_data"
_RAW = ("mean", "cls", "last", "first_last", "embedding_last")
_TRAINED = ("simcse-unsup", "simcse-sup")
_FILTERS = ("source", "table", "encoder", "method", "corpus", "aggregation")


@dataclass(frozen=True)
class Source:
    """Where figures come from."""

    key: str
    title: str
    authors: str
    year: int
    url: str


@dataclass(frozen=True)
class Ambiguity:
    """A point that a paper leaves open or contradicts its code in, and the reading taken here."""

    key: str
    question: str
    readings: tuple[str, ...]
    taken: str
    why: str


@dataclass(frozen=True)
class PublishedRow:
    """One row of a published table of Spearman figures x 100.

    Attributes:
        id: Stable name, e.g. ``li2020-2-bert-base-uncased-flow-target``.
        source: Key of the paper.
        table: Table in it; empty for a leaderboard.
        encoder: Encoder as the data names it.
        method: Method as the data names it, e.g. ``first_last``, ``whitening-256``, ``flow``.
        corpus: What the method was fitted on; empty if nothing.
        aggregation: ``all``, ``mean``, ``wmean`` or ``unknown``.
        figures: Task -> Spearman x 100, of the tasks that the row has.
    """

    id: str
    source: str
    table: str
    encoder: str
    method: str
    corpus: str
    aggregation: str
    figures: Mapping[str, float]

    @property
    def average(self) -> float:
        """Plain average over the seven tasks; NaN if the row lacks one."""
        return sum(self.figures.values()) / len(TASKS) if len(self.figures) == len(TASKS) else math.nan


@dataclass(frozen=True)
class Setting:
    """How a row is reproduced, under the readings taken.

    Attributes:
        encoder: Hub name; None where the row has none (word vectors).
        layers: Layers averaged, as the encoder's option takes them.
        pooling: Token pooling.
        max_length: Tokens after which sentences are cut; None does not cut.
        method: Method as this project names it: ``raw`` for an encoder as it stands.
        corpus: What the method is fitted on: ``target``, ``nli``, ``none``.
        aggregation: ``all``, ``mean`` or ``wmean``.
        options: Hyper-parameters.
        trained: Whether the encoder itself must be trained first, which no calibration run does.
    """

    encoder: str | None
    layers: str
    pooling: str
    max_length: int | None
    method: str
    corpus: str
    aggregation: str
    options: Mapping[str, Any]
    trained: bool


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure that is no row of STS tasks.

    Attributes:
        id: Stable name.
        source: Key of the paper.
        table: Table in it; empty if none.
        quantity: What was measured, e.g. ``qnli_auc``.
        subject: On what.
        condition: Under which condition; empty if none.
        value: The figure.
    """

    id: str
    source: str
    table: str
    quantity: str
    subject: str
    condition: str
    value: float


def published_rows(
    source: str | None = None,
    *,
    table: str | None = None,
    encoder: str | None = None,
    method: str | None = None,
    corpus: str | None = None,
    aggregation: str | None = None,
) -> tuple[PublishedRow, ...]:
    """Published rows, in the order of the data; each argument keeps the rows that have this value.

    Raises:
        UserError: If no row at all has the value asked for; the message gives those there are.

    Example:
        >>> len(published_rows()), [row.figures["STSB"] for row in published_rows("li2020", method="flow")][:2]
        (60, [58.56, 70.72])
    """
    rows = _rows()
    wanted = dict(zip(_FILTERS, (source, table, encoder, method, corpus, aggregation), strict=True))
    for name, value in wanted.items():
        known = dict.fromkeys(str(getattr(row, name)) for row in rows)
        if value is not None and value not in known:
            raise UserError(f"no published row has the {name} {value!r}; {choices([k for k in known if k], value)}")
    return tuple(row for row in rows if all(v is None or getattr(row, name) == v for name, v in wanted.items()))


def published_row(row_id: str) -> PublishedRow:
    """The row of this id.

    Raises:
        UserError: If there is none; the message gives the nearest ids.

    Example:
        >>> published_row("su2021-1-bert-base-uncased-whitening-256-target").figures["STS12"]
        63.89
    """
    rows = {row.id: row for row in _rows()}
    if row_id not in rows:
        raise UserError(f"no published row {row_id!r}; {choices(rows, row_id)}")
    return rows[row_id]


def published_figures(source: str | None = None, quantity: str | None = None) -> tuple[PublishedFigure, ...]:
    """Published figures other than STS rows (word space, QNLI, edit distance, ablations), in the order of the data.

    Raises:
        UserError: If no figure has the source or quantity asked for.

    Example:
        >>> published_figures("li2020", "spearman_with_edit_distance")[0].value
        -24.61
    """
    figures = _figures()
    for name, value in (("source", source), ("quantity", quantity)):
        known = dict.fromkeys(str(getattr(figure, name)) for figure in figures)
        if value is not None and value not in known:
            raise UserError(f"no published figure has the {name} {value!r}; {choices(known, value)}")
    return tuple(f for f in figures if source in (None, f.source) and quantity in (None, f.quantity))


def source_of(row: PublishedRow | PublishedFigure) -> Source:
    """The paper, post or leaderboard that a row or figure comes from."""
    return Source(key=row.source, **_content()["sources"][row.source])


def setting_of(row: PublishedRow) -> Setting:
    """The exact setting of a row, under the readings taken.

    Example:
        >>> setting = setting_of(published_row("li2020-2-bert-base-uncased-flow-target"))
        >>> setting.layers, setting.max_length, setting.options["learning_rate"]
        ('first_last', 64, 0.001)
    """
    found: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for rule in _content()["settings"]:
        if _applies(rule["when"], row):
            options |= rule["set"].get("options", {})
            found |= {name: value for name, value in rule["set"].items() if name != "options"}
    raw = row.method in _RAW
    return Setting(
        encoder=_content()["encoders"][row.encoder],
        layers=found["layers"],
        pooling=found["pooling"],
        max_length=found["max_length"],
        method="raw" if raw else row.method,
        corpus="none" if raw or not row.corpus else row.corpus,
        aggregation="all" if row.aggregation == "unknown" else row.aggregation,
        options=MappingProxyType(options),
        trained=row.method in _TRAINED,
    )


def ambiguities_of(row: PublishedRow) -> tuple[Ambiguity, ...]:
    """What is open about a row, and the reading taken."""
    return tuple(
        Ambiguity(item["key"], item["question"], tuple(item["readings"]), item["taken"], item["why"])
        for item in _content()["ambiguities"]
        if _applies(item["when"], row)
    )


def explain(row: PublishedRow) -> str:
    """A row in full, as text of several lines: source, figures, setting, each ambiguity with the reading taken."""
    source, setting = source_of(row), setting_of(row)
    place = f", table {row.table}" if row.table else ""
    cut = "not cut" if setting.max_length is None else f"cut at {setting.max_length} tokens"
    lines = [
        row.id,
        f"  source: {source.authors} ({source.year}), {source.title}{place}. {source.url}",
        f"  published: {', '.join(f'{task} {figure:.2f}' for task, figure in row.figures.items())}",
        f"  encoder: {setting.encoder or row.encoder}, layers {setting.layers}, pooling {setting.pooling}, {cut}",
        f"  method: {setting.method}, fitted on: {setting.corpus}, aggregation: {setting.aggregation}",
    ]
    if setting.trained:
        lines.append(f"  training: the encoder itself is trained on {row.corpus}")
    if setting.options:
        lines.append(f"  options: {', '.join(f'{name} {value}' for name, value in setting.options.items())}")
    for item in ambiguities_of(row):
        lines.append(f"  {item.key}: {item.question}")
        lines.append(f"    readings: {'; '.join(item.readings)}")
        lines.append(f"    taken: {item.taken}. {item.why}")
    return "\n".join(lines)


def _applies(when: Mapping[str, Sequence[str]], row: PublishedRow) -> bool:
    return all(
        any(task in row.figures for task in allowed) if name == "tasks" else getattr(row, name) in allowed
        for name, allowed in when.items()
    )


def _identity(*parts: str) -> str:
    return "-".join(re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-") for part in parts if part)


def _read(name: str) -> str:
    return (resources.files("flowbert.evaluation") / _FOLDER / name).read_text(encoding="utf-8")


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_read("settings.json"))
    return content


@cache
def _rows() -> tuple[PublishedRow, ...]:
    rows = []
    for record in csv.DictReader(_read("sts.csv").splitlines()):
        names = {name: record[name] for name in _FILTERS}
        figures = {task: float(record[task]) for task in TASKS if record[task]}
        row_id = _identity(*(names[name] for name in _FILTERS if name != "aggregation"))
        rows.append(PublishedRow(id=row_id, **names, figures=MappingProxyType(figures)))
    return tuple(rows)


@cache
def _figures() -> tuple[PublishedFigure, ...]:
    found = []
    for record in csv.DictReader(_read("other.csv").splitlines()):
        names = {name: record[name] for name in ("source", "table", "quantity", "subject", "condition")}
        found.append(PublishedFigure(id=_identity(*names.values()), **names, value=float(record["value"])))
    return tuple(found)
