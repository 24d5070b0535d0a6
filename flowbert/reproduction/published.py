"""The published figures, the exact setting of each row, and the ambiguities with the reading taken."""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from flowbert.data.sts import TASKS
from flowbert.errors import UserError, choices

Item = TypeVar("Item")
# The settings of a flow that its name as a method carries, in this order.
_FLOW_OPTIONS = (
    *("levels", "depth", "width", "coupling", "mixing", "noise", "weight_decay", "schedule", "learning_rate"),
    *("epochs", "batch_size"),
)


class Source(NamedTuple):
    """Where figures come from."""

    key: str
    title: str
    authors: str
    year: int
    url: str


class Ambiguity(NamedTuple):
    """A point that a paper leaves open or contradicts its code in, the reading taken here, and the rows it is about."""

    key: str
    question: str
    readings: tuple[str, ...]
    taken: str
    why: str
    when: Mapping[str, Sequence[str]]


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

    @property
    def full_method(self) -> str:
        """The method with, for a flow, every option written out.

        Example:
            >>> published_row("li2020-2-bert-base-uncased-flow-nli").setting.full_method.split(":")[-3:]
            ['epochs=0.15', 'batch_size=64', 'start_size=64']
        """
        if self.method != "flow":
            return self.method
        options = {name: self.options[name] for name in _FLOW_OPTIONS if name in self.options}
        options["start_size"] = options["batch_size"]
        return ":".join(["flow", *(f"{name}={value}" for name, value in options.items())])

    def __str__(self) -> str:
        """The setting in one line."""
        cut = "not cut" if self.max_length is None else f"cut at {self.max_length}"
        fitted = "" if self.corpus == "none" else f" on {self.corpus}"
        trained = ", encoder trained first" if self.trained else ""
        return (
            f"{self.encoder or 'word vectors'}, layers {self.layers}, pooling {self.pooling}, {cut}, "
            f"{self.full_method}{fitted}, {self.aggregation}{trained}"
        )


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
    def reference(self) -> Source:
        """The paper, post or leaderboard."""
        return reference(self.source)

    @property
    def setting(self) -> Setting:
        """The exact setting, under the readings taken.

        Example:
            >>> setting = published_row("li2020-2-bert-base-uncased-flow-target").setting
            >>> setting.layers, setting.max_length, setting.options["learning_rate"]
            ('first_last', 64, 0.001)
        """
        names = ("method", "corpus", "aggregation")
        found: dict[str, Any] = {name: getattr(self, name) for name in names} | {"options": {}}
        for rule in _content()["settings"]:
            if self._fits(rule["when"]):
                found |= rule["set"] | {"options": found["options"] | rule["set"].get("options", {})}
        found["options"] = MappingProxyType(found["options"])
        return Setting(encoder=_content()["encoders"][self.encoder], **found)

    @property
    def ambiguities(self) -> tuple[Ambiguity, ...]:
        """What is open about the row, and the reading taken."""
        return tuple(Ambiguity(**item) for item in _content()["ambiguities"] if self._fits(item["when"]))

    def explain(self) -> str:
        """The row in full, as lines: source, figures, setting, each ambiguity with the reading taken."""
        source, setting = self.reference, self.setting
        place = f", table {self.table}" if self.table else ""
        lines = [
            self.id,
            f"  source: {source.authors} ({source.year}), {source.title}{place}. {source.url}",
            f"  published: {', '.join(f'{task} {figure:.2f}' for task, figure in self.figures.items())}",
            f"  setting: {setting}",
        ]
        if setting.options:
            lines.append(f"  options: {', '.join(f'{name} {value}' for name, value in setting.options.items())}")
        for item in self.ambiguities:
            lines.append(f"  {item.key}: {item.question}")
            lines.append(f"    readings: {'; '.join(item.readings)}")
            lines.append(f"    taken: {item.taken}. {item.why}")
        return "\n".join(lines)

    def _fits(self, when: Mapping[str, Sequence[str]]) -> bool:
        return all(
            any(task in self.figures for task in allowed) if name == "tasks" else getattr(self, name) in allowed
            for name, allowed in when.items()
        )


class PublishedFigure(NamedTuple):
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


def published_rows(table: str | None = None, **columns: str) -> tuple[PublishedRow, ...]:
    """Published rows, in the order of the data.

    Args:
        table: A source (``li2020``) or one of its tables (``li2020-2``).
        columns: Values that the rows have: ``encoder``, ``method``, ``corpus``, ``aggregation``.

    Raises:
        UserError: If no row at all has a value asked for; the message gives those there are.

    Example:
        >>> len(published_rows()), [row.figures["STSB"] for row in published_rows("li2020", method="flow")][:2]
        (60, [58.56, 70.72])
        >>> [row.method for row in published_rows("li2020-2", encoder="bert-base-uncased")]
        ['last', 'first_last', 'flow', 'flow']
    """
    rows = _rows()
    if table is not None:
        names = {row.id: (row.source, _identity(row.source, row.table)) for row in rows}
        _check("table", table, (name for both in names.values() for name in both))
        rows = tuple(row for row in rows if table in names[row.id])
    return _having(rows, _rows(), columns)


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


def published_figures(**columns: str) -> tuple[PublishedFigure, ...]:
    """Published figures other than STS rows (word space, QNLI, edit distance, ablations), in the order of the data.

    Args:
        columns: Values that they have: ``source``, ``quantity``, ``subject``, ``condition``.

    Raises:
        UserError: If no figure at all has a value asked for.

    Example:
        >>> published_figures(source="li2020", quantity="spearman_with_edit_distance")[0].value
        -24.61
    """
    return _having(_figures(), _figures(), columns)


def reference(source: str) -> Source:
    """The paper, post or leaderboard of a key."""
    return Source(key=source, **_content()["sources"][source])


def _having(found: tuple[Item, ...], known: Iterable[Item], columns: Mapping[str, str]) -> tuple[Item, ...]:
    for name, value in columns.items():
        _check(name, value, (getattr(item, name) for item in known))
    return tuple(item for item in found if all(getattr(item, name) == value for name, value in columns.items()))


def _check(name: str, value: str, known: Iterable[str]) -> None:
    names = [each for each in dict.fromkeys(known) if each]
    if value not in names:
        raise UserError(f"{name}: received {value!r}; {choices(names, value)}")


def _identity(*words: str) -> str:
    return "-".join(re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-") for word in words if word)


def _read(name: str) -> str:
    return (resources.files("flowbert.reproduction") / "published_data" / name).read_text(encoding="utf-8")


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_read("settings.json"))
    return content


@cache
def _rows() -> tuple[PublishedRow, ...]:
    rows = []
    for record in csv.DictReader(_read("sts.csv").splitlines()):
        figures = {task: float(figure) for task in TASKS if (figure := record.pop(task))}
        names = [value for name, value in record.items() if name != "aggregation"]
        rows.append(PublishedRow(id=_identity(*names), **record, figures=MappingProxyType(figures)))
    return tuple(rows)


@cache
def _figures() -> tuple[PublishedFigure, ...]:
    found = []
    for record in csv.DictReader(_read("other.csv").splitlines()):
        value = float(record.pop("value"))
        found.append(PublishedFigure(id=_identity(*record.values()), **record, value=value))
    return tuple(found)
