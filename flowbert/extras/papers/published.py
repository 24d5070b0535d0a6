"""Published scores, and the comparison of an encoder with the published one of a row."""

import fnmatch
import json
import math
from collections.abc import Sequence
from importlib.resources import files
from textwrap import wrap
from typing import Any

import pandas as pd
import yaml

from flowbert.data.text_files import as_list, user_path
from flowbert.errors import UserError, nearest
from flowbert.io import read_json

_IS_COPY = "taken, by its name and its size, for the published encoder"
_OTHER_NAME = "in place of the published encoder"

PUBLISHED_TASKS = {
    "STS12": 3108,
    "STS13": 1500,
    "STS14": 3750,
    "STS15": 3000,
    "STS16": 1186,
    "STSB": 1379,
    "SICKR": 4927,
}
"""Tasks of the published rows, with the number of their test pairs in SentEval."""


def published(name: str = "sts") -> pd.DataFrame:
    """Published scores by id.

    Args:
        name: ``sts`` for the rows of :func:`flowbert.reproduce` (Spearman x 100 by task, and their
            settings); ``other`` for scores of other quantities.

    Example:
        >>> rows = published()
        >>> rows[rows["source"] == "mteb"]["STSB"].item()
        82.03
    """
    file = files("flowbert.extras.papers") / "published_data" / f"{name}.csv"
    with file.open(encoding="utf-8") as lines:
        return pd.read_csv(lines, keep_default_na=False, na_values=["nan"])


def explain(rows: str | Sequence[str]) -> str:
    """A published row as a configuration of ``compare``, or the ids of several rows by paper.

    Comments give the source, the published scores, and our choice for each open point.

    Args:
        rows: As in :func:`flowbert.reproduce`.

    Raises:
        UserError: If a name selects no row.
    """
    known = notes()
    chosen = select_rows(rows, "explain")
    if len(chosen) > 1:
        titles = {x: f"{y['title']}, {y['year']}" for x, y in known["sources"].items()}
        papers = chosen["source"].map(titles)
        ids = chosen.groupby(papers, sort=False)["id"].agg(list).to_dict()
        return yaml.safe_dump(ids, sort_keys=False, allow_unicode=True)
    (row,) = chosen.to_dict("records")
    source = known["sources"][row["source"]]
    scores = {x: row[x] for x in PUBLISHED_TASKS if math.isfinite(row[x])}
    published_scores = ", ".join(f"{name} {score}" for name, score in scores.items())
    comments = [
        f"{row['id']}: {source['title']} ({source['authors']}, {source['year']}), "
        f"table {row['table']}. {source['url']}",
        f"Spearman x 100 there ({row['aggregation']}): {published_scores}",
        "flowbert compare --config FILE --senteval DIR measures this setting",
    ]
    if row["trained"]:
        run = "the path is to be the run folder of this training"
        comments.append(f"{row['training']}: {run}")
    for name in row["ambiguities"].split():
        point = known["ambiguities"][name]
        readings = "; ".join(point["readings"])
        taken = f"Readings: {readings}. Taken: {point['taken']}. {point['why']}"
        comments.append(f"{point['question']} {taken}")
    keys = ("path", "layers", "pooling", "template", "max_length")
    config = {
        "encoder": {key: row[key] for key in keys if row[key] != ""},
        "methods": row["map"],
        "corpus": "target" if row["map"] == "raw" else row["corpus"],
        "tasks": [f"{row['task']}:{name}" for name in scores],
    }
    lines = [f"# {line}\n" for comment in comments for line in wrap(comment, 98)]
    return "".join(lines) + yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def notes() -> dict[str, Any]:
    """Sources, open points, and papers whose rows are missing."""
    file = files("flowbert.extras.papers") / "published_data" / "notes.json"
    read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return read


def select_rows(
    rows: str | Sequence[str] | None, argument: str = "rows"
) -> pd.DataFrame:
    """Published rows by id, first parts of an id, or pattern; all of them for None.

    Raises:
        UserError: If a name selects no row; for a paper without rows, with the reason.
    """
    known = published()
    if rows is None:
        return known
    missing = notes()["missing"]
    chosen: set[str] = set()
    for name in as_list(rows, argument):
        if name in missing:
            raise UserError(f"{name} has no rows: {missing[name]}", argument=argument)
        matches = fnmatch.filter(known["id"], name)
        matches += fnmatch.filter(known["id"], f"{name}-*")
        if not matches:
            names = [*known["source"].unique(), *known["id"]]
            allowed = "an id, its first parts up to a hyphen, or a pattern"
            raise UserError(
                argument=argument,
                received=name,
                expected=f"{allowed}{nearest(names, name)}",
            )
        chosen.update(matches)
    return known[known["id"].isin(chosen)]


def compare_with_published(encoder: str, published: str) -> tuple[bool, str]:
    """Compare an encoder with a published one, by name and sizes.

    ``_name_or_path`` in the config of a folder is not used, because it may name an encoder that was
    fine-tuned.

    Args:
        encoder: Folder, run folder, text file of word vectors, or hub name.
        published: Hub name of the published encoder; empty for word vectors.

    Returns:
        Whether it is the published one, and a note with the sizes that differ, such as
        ``(num_hidden_layers 4, published 12)``.
    """
    folder = user_path(encoder).absolute()
    name = folder.name if folder.exists() else encoder.partition("@")[0]
    if name != (published.rpartition("/")[2] if folder.exists() else published):
        return False, f"{folder.name} {_OTHER_NAME}"
    config = folder / "config.json"
    sizes = read_json(config) if config.is_file() else {}
    differing = [
        f"{size} {sizes.get(size)}, published {value}"
        for size, value in notes()["sizes"][published].items()
        if folder.exists() and sizes.get(size) != value
    ]
    if differing:
        return False, f"{folder.name} {_OTHER_NAME} ({', '.join(differing)})"
    return True, f"{folder.name} {_IS_COPY}"
