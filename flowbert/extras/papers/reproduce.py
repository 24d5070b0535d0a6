"""Reproduction of published scores with the same settings."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache as cached
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flowbert.data.corpus import Corpus, load_corpus
from flowbert.data.text_files import as_list, user_path
from flowbert.encoders import Embedder, SentenceEncoder, choose_device, load_encoder
from flowbert.errors import UserError, check_choice
from flowbert.experiments.compare import check_options
from flowbert.experiments.plan import Experiment, Method, plan_experiments
from flowbert.experiments.results import Results
from flowbert.experiments.run import run_experiments
from flowbert.extras.papers.published import (
    PUBLISHED_TASKS,
    compare_with_published,
    published,
    select_rows,
)
from flowbert.io import write_atomically
from flowbert.maps import make_map
from flowbert.options import ReproduceOptions, takes
from flowbert.progress import tell
from flowbert.tasks import AVERAGE, Task, load_tasks
from flowbert.vectors import EmbeddingCache

_UNIFORMITY_LIMIT = 1000  # no row has a published uniformity


@takes(ReproduceOptions)
def reproduce(options: ReproduceOptions) -> pd.DataFrame:
    """Measure published rows with their exact settings.

    Rows without NLI pairs run first, one encoder after the other. A terminal shows a line for each
    finished row. If the encoder or the corpus of a row is missing, its note gives the reason. A
    note also says if the pairs of a task differ from SentEval. Those of the hub do: STS12 to STS16
    only have the aggregation ``all``, and SICKR has all splits in one.

    Args:
        options: Fields of :class:`flowbert.options.ReproduceOptions`, as arguments.

    Returns:
        A line for each row and task, and for the average of several tasks: ``published`` and
        ``ours`` are Spearman x 100, ``low`` and ``high`` the ends of our 95% interval, ``std``
        is the standard deviation over several seeds.

    Raises:
        UserError: If an argument is wrong, or no row can be run.
    """
    seeds = check_options(options.seeds, options.output)
    device = choose_device(options.device)
    chosen = _place_encoder(options.rows, options.encoder)
    tasks_of = _load_tasks(chosen, options.tasks, options.senteval)
    cache = options.cache
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)

    @cached
    def load_network(path: str, pooling: str) -> SentenceEncoder:
        encoder = SentenceEncoder(path, layers="last", pooling=pooling, template="")
        return encoder.to(device)

    @cached
    def load_nli() -> Corpus | UserError:
        try:
            return load_corpus("nli", nli=options.nli)
        except UserError as error:  # offline, a try takes half a minute
            return error

    lines: dict[str, pd.DataFrame] = {}
    failures: dict[str, str] = {}
    finished = Results([], {})
    for group in _by_source(chosen):
        plans: dict[str, list[Experiment]] = {}
        row_notes = {row.id: row.note for row in group}
        for row in group:
            try:
                opened = _open_encoder(row, load_network)
                corpus = load_nli() if row.fits_nli else None
                plans[row.id] = _plan(row, tasks_of[row.id], opened, corpus, seeds)
            except UserError as error:
                failures[row.id] = str(error)
                row_notes[row.id] = f"cannot be run: {error}"
                tell(f"{row.id} {row_notes[row.id]}")
        experiments = {each.key: each for plan in plans.values() for each in plan}
        # No vectors are kept: a sample would be of one encoder among many.
        results = run_experiments(
            list(experiments.values()), cache, options.output, device, sample=False
        )
        for row in group:
            keys = {experiment.key for experiment in plans.get(row.id, ())}
            ours = Results.of([x for x in results.records if x.key in keys], {})
            if keys:
                ours.add_intervals(options.bootstrap, options.bootstrap_seed)
            lines[row.id] = _merge(row, tasks_of[row.id], ours.frame, row_notes[row.id])
            if keys:
                last = lines[row.id].iloc[-1]
                tell(f"{row.id}: {last.ours:z.1f}, published {last.published:z.1f}")
        about = results.about
        about["encoders"] = finished.about.get("encoders", []) + about["encoders"]
        finished = Results.of([*finished.records, *results.records], about)
        # In the order of the published rows.
        comparison = pd.concat([lines[x] for x in chosen["id"] if x in lines])
        if options.output is not None and finished.records:
            _save(finished, comparison, options.output)
    if not finished.records:
        raise UserError("; ".join(dict.fromkeys(failures.values())))
    return comparison.reset_index(drop=True)


def _place_encoder(
    rows: str | Sequence[str] | None, encoder: str | None
) -> pd.DataFrame:
    """The rows of a published encoder, or all rows with another encoder in its place.

    A published encoder replaces others only in rows that are selected by their id.
    """
    chosen = select_rows(rows)
    chosen = chosen.assign(
        by_id=chosen["id"].isin(as_list(rows, "rows")),
        fits_nli=chosen["map"].ne("raw") & chosen["corpus"].eq("nli"),
        opened=chosen["path"],
        context=False,
        note="",
    )
    if encoder is None:
        return chosen
    known = published()
    is_published = known["encoder"].eq(encoder) | known["path"].eq(encoder)
    if is_published.any() and not Path(encoder).exists():
        # A name of the papers, or of the hub: either selects the same rows.
        paths = {*known.loc[is_published, "path"]} - {""}
        same = chosen["path"].isin(paths) | chosen["encoder"].eq(encoder)
        if not same.any():
            check_choice("encoder", encoder, list(chosen["encoder"].unique()))
        return chosen[same]
    # What is trained is no published encoder, whatever its name.
    paths = chosen["path"].mask(chosen["trained"], "")
    compared = [compare_with_published(encoder, path) for path in paths]
    is_copy = np.array([is_same for is_same, _ in compared], dtype=bool)
    notes = [note for _, note in compared]
    placed = chosen.assign(opened=encoder, context=~is_copy, note=notes)
    return placed[is_copy | placed["by_id"]] if is_copy.any() else placed


def _load_tasks(
    rows: pd.DataFrame, tasks: str | Sequence[str] | None, senteval: str | None
) -> dict[str, dict[str, Task]]:
    """The tasks with published scores, by row id and name in the papers."""
    names = as_list(tasks, "tasks") or list(PUBLISHED_TASKS)
    for name in names:
        check_choice("tasks", name, PUBLISHED_TASKS)
    names = [name for name in names if rows[name].notna().any()]
    if not names:
        raise UserError(
            f"received {tasks}; the rows have no scores on these tasks",
            argument="tasks",
        )
    kinds = list(itertools.product(rows["task"].unique(), names))
    texts = [":".join(kind) for kind in kinds]
    loaded = load_tasks(texts, senteval, uniformity_limit=_UNIFORMITY_LIMIT)
    by_kind = dict(zip(kinds, loaded, strict=True))
    return {
        row["id"]: {x: by_kind[row["task"], x] for x in names if np.isfinite(row[x])}
        for row in rows.to_dict("records")
    }


def _by_source(rows: pd.DataFrame) -> Iterator[list[Any]]:
    """Group rows by encoder; rows that need NLI pairs come last."""
    for _, half in rows.groupby("fits_nli"):
        for _, group in half.groupby("opened", sort=False):
            yield list(group.itertuples())


def _open_encoder(
    row: Any, load_network: Callable[[str, str], SentenceEncoder]
) -> Embedder:
    """Open the encoder of a row with the settings of the row."""
    if row.trained and not (row.by_id and row.context):
        raise UserError(
            "this row requires a trained one; expected its run folder, with the id of the row",
            argument="encoder",
        )
    is_file = user_path(row.opened).is_file()
    if is_file == bool(row.path):
        kind = "an encoder" if row.path else "a text file of word vectors"
        received = repr(row.opened) if row.opened else "nothing"
        raise UserError(f"received {received}; expected {kind}", argument="encoder")
    if is_file:
        vectors: Embedder = load_encoder(row.opened)
        return vectors
    return load_network(row.opened, row.pooling).read(
        layers=row.layers, max_length=row.max_length, template=row.template
    )


def _plan(
    row: Any,
    tasks: Mapping[str, Task],
    encoder: Embedder,
    corpus: Corpus | UserError | None,
    seeds: Sequence[int],
) -> list[Experiment]:
    """Experiments that measure a row, fitted on a corpus, or on the sentences of each task."""
    if isinstance(corpus, UserError):
        raise corpus
    corpora = {
        task: [(corpus or task.corpus("target"), None)]
        for task in tasks.values()
        if ("spearman", row.aggregation) in task.metrics
    }
    methods = [Method(row.map, make_map(row.map), encoder=encoder)]
    return plan_experiments([encoder], methods, corpora, {}, seeds)


def _save(results: Results, comparison: pd.DataFrame, output: str | Path) -> None:
    """Write the results, and the comparison as .csv."""
    results.about["published"] = comparison.to_dict("records")
    results.save(output)
    with write_atomically(Path(output).with_suffix(".csv")) as temporary:
        comparison.to_csv(temporary, index=False)


def _merge(
    row: Any, tasks: Mapping[str, Task], ours: pd.DataFrame, note: str
) -> pd.DataFrame:
    """Published score and ours, for each task of a row and their average.

    Args:
        row: The published row.
        tasks: Tasks of the row, by their names in the papers.
        ours: Results of its setting, with averages and means over seeds; empty if it failed.
        note: Note on the encoder, or the reason of missing results.
    """
    published = pd.Series({name: getattr(row, name) for name in tasks}, dtype=float)
    aggregation = row.aggregation
    others = pd.Series({x: _other_pairs(x, tasks[x], aggregation) for x in tasks})
    different = others[others != ""]
    notes = [
        f"{', '.join(same)}: {text}"
        for text, same in different.groupby(different, sort=False).groups.items()
    ]
    of_row = ours["metric"].eq("spearman") & ours["aggregation"].eq(aggregation)
    # Of several seeds the last row is their mean.
    ours = ours[of_row].drop_duplicates("task", keep="last").set_index("task")
    ours = ours.rename(index={task.name: name for name, task in tasks.items()})
    if not set(tasks) <= set(ours.index):
        ours = ours.drop(index=AVERAGE, errors="ignore")
    if len(tasks) > 1:
        published[AVERAGE], others[AVERAGE] = published.mean(), others.max()
    ours = ours.reindex(published.index)
    scores = 100 * ours[["value", "low", "high", "std"]].astype(float)
    is_target = others.eq("") & (not row.context)
    reasons = ours["reason"].fillna("")
    return pd.DataFrame(
        {
            "row": row.id,
            "task": published.index,
            "aggregation": aggregation,
            "published": published,
            "ours": scores["value"],
            "low": scores["low"],
            "high": scores["high"],
            "std": scores["std"],
            "difference": (scores["value"] - published).where(is_target),
            "note": ["; ".join(filter(None, [note, *notes, x])) for x in reasons],
        }
    )


def _other_pairs(name: str, task: Task, aggregation: str) -> str:
    """Difference between the pairs of a task and those of the papers; empty if they are equal."""
    expected = PUBLISHED_TASKS[name]
    if task.count != expected:
        return f"{task.count} pairs here, {expected} in SentEval"
    if ("spearman", aggregation) not in task.metrics:
        return f"merged subsets here, so no aggregation {aggregation}"
    return ""
