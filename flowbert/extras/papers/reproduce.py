"""Reproduction of published scores with the same settings."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache as cached
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from flowbert.data.corpus import Corpus, load_corpus
from flowbert.data.text_files import as_list, user_path
from flowbert.encoders import Encoder, SentenceEncoder, choose_device, load_encoder
from flowbert.errors import UserError, check_choice
from flowbert.experiments.compare import check_options
from flowbert.experiments.estimates import find_intervals
from flowbert.experiments.intervals import with_averages
from flowbert.experiments.plan import Experiment, Method, plan_experiments
from flowbert.experiments.run import run_experiments
from flowbert.extras.papers.published import (
    PUBLISHED_TASKS,
    has_name_of,
    published,
    select_rows,
)
from flowbert.io import write_atomically
from flowbert.maps import make_map
from flowbert.numbers import CountOrZero, Seed
from flowbert.options import takes_options
from flowbert.tasks import AVERAGE, Task, load_tasks
from flowbert.vectors import EmbeddingCache

_FAILED = "cannot be run: "
IS_COPY = "taken, by its name, for the published encoder"
OTHER_NAME = "in place of the published encoder"
_UNIFORMITY_LIMIT = 1000  # no row has a published uniformity


@takes_options
def reproduce(
    rows: str | Sequence[str] | None = None,
    *,
    encoder: str | None = None,
    senteval: str | None = None,
    nli: str = "hub",
    tasks: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] = 0,
    bootstrap: CountOrZero = 1000,
    bootstrap_seed: Seed = 0,
    output: str | Path | None = None,
    cache: str | EmbeddingCache | None = None,
    device: str | torch.device = "auto",
) -> pd.DataFrame:
    """Measure published rows with their exact settings.

    If a row cannot run, because its encoder or corpus is missing, its note gives the reason. A note
    also states whether the pairs of a task differ from those of SentEval, as those of the hub do:
    STS12 to STS16 have the aggregation ``all`` only, and SICKR has all splits in one.

    Args:
        rows: Ids of published rows, their first parts up to a hyphen (``li2020``, ``li2020-2``), or
            patterns (``*-flow-target``), such as ``li2020,su2021``. None for all.
        encoder: Name of a published encoder, or a folder of that name, to run only its rows.
            Another folder, run folder or file of word vectors replaces the published encoders of
            all rows; the published scores are then context, not targets. A row that is given by
            its id runs with any encoder.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        nli: NLI pairs of the rows that are fitted on NLI: ``hub``, or files.
        tasks: Tasks to evaluate on, such as ``STSB,SICKR``. None for all: STS12 to STS16, STSB and
            SICKR.
        seeds: Seeds of the flows; of several, such as ``0,1,2``, the mean is compared.
        bootstrap: Resamples of the confidence intervals; 0 for none.
        bootstrap_seed: Seed of the resamples.
        output: FILE.json for all results; the comparison is also written to FILE.csv. Finished
            experiments are stored in the folder FILE.records and reused.
        cache: Folder of the embedding cache; in Python also an ``EmbeddingCache``. None for
            ``FLOWBERT_CACHE``, or ``~/.cache/flowbert``.
        device: Device of encoders and flows, such as ``cuda:1``; ``auto`` for the GPU if there is
            one.

    Returns:
        A line for each row and task, and for the average of several tasks: ``published`` and
        ``ours`` are Spearman x 100, ``low`` and ``high`` the ends of our 95% interval, ``std``
        is the standard deviation over several seeds.

    Raises:
        UserError: If an argument is wrong, or no row can be run.
    """
    seeds = check_options(seeds, output)
    device = choose_device(device)
    names = as_list(tasks, "tasks") or list(PUBLISHED_TASKS)
    for name in names:
        check_choice("tasks", name, PUBLISHED_TASKS)
    chosen = select_rows(rows)
    chosen = chosen.assign(by_id=chosen["id"].isin(as_list(rows, "rows")))
    chosen = _place_encoder(chosen, encoder)
    names = [name for name in names if chosen[name].notna().any()]
    if not names:
        raise UserError(
            f"received {tasks}; the rows have no scores on these tasks",
            argument="tasks",
        )
    kinds = list(itertools.product(chosen["task"].unique(), names))
    texts = [":".join(kind) for kind in kinds]
    loaded = load_tasks(texts, senteval, uniformity_limit=_UNIFORMITY_LIMIT)
    measured = dict(zip(kinds, loaded, strict=True))

    @cached
    def load_nli() -> Corpus:
        return load_corpus("nli", nli=nli)

    @cached
    def load_network(path: str, pooling: str) -> SentenceEncoder:
        encoder = SentenceEncoder(path, layers="last", pooling=pooling, template="")
        return encoder.to(device)

    tasks_of: dict[str, dict[str, Task]] = {}  # by their names in the papers
    plans: dict[str, list[Experiment]] = {}
    for row in chosen.itertuples():
        scored = [name for name in names if np.isfinite(getattr(row, name))]
        tasks_of[row.id] = {name: measured[row.task, name] for name in scored}
        try:
            opened = _open_encoder(row, load_network)
            fits_nli = row.map != "raw" and row.corpus == "nli"
            corpora = {
                task: [(load_nli() if fits_nli else task.corpus("target"), None)]
                for task in tasks_of[row.id].values()
                if ("spearman", row.aggregation) in task.metrics
            }
            if not corpora:
                raise UserError(
                    f"received tasks without the aggregation {row.aggregation}; expected "
                    "tasks with their subsets",
                    argument="senteval",
                )
            methods = [Method(row.map, make_map(row.map), encoder=opened)]
            plans[row.id] = plan_experiments([opened], methods, corpora, {}, seeds)
        except UserError as error:
            chosen.loc[row.Index, "note"] = f"{_FAILED}{error}"
    if not plans:
        failures = chosen["note"].str.removeprefix(_FAILED)
        raise UserError("; ".join(failures.unique()))
    distinct = {each.key: each for plan in plans.values() for each in plan}
    # No vectors are kept: a sample would be of one encoder among many.
    results = run_experiments(
        list(distinct.values()), cache, output, device, sample=False
    )
    draws = results.draws(bootstrap, bootstrap_seed)
    results.frame[["low", "high"]] = find_intervals(draws)
    lines = []
    for row in chosen.itertuples():
        keys = [experiment.key for experiment in plans.get(row.id, [])]
        own = results.frame["experiment"].isin(keys).to_numpy()
        frame, given = results.frame[own].reset_index(drop=True), tasks_of[row.id]
        ours, _ = with_averages(frame, draws[own], list(given.values()), bootstrap_seed)
        lines.append(_merge(row, given, ours))
    comparison = pd.concat(lines, ignore_index=True)
    if output is not None:
        results.about["published"] = comparison.to_dict("records")
        results.save(output)
        with write_atomically(Path(output).with_suffix(".csv")) as temporary:
            comparison.to_csv(temporary, index=False)
    return comparison


def _place_encoder(rows: pd.DataFrame, encoder: str | None) -> pd.DataFrame:
    """The rows of a published encoder, or all rows with another encoder in its place.

    A copy of a published encoder replaces others only in rows that are given by their id.
    """
    rows = rows.assign(opened=rows["path"], context=False, note="")
    if encoder is None:
        return rows
    known = published()
    if encoder in {*known["encoder"], *known["path"]} and not Path(encoder).exists():
        # A name of the papers, or of the hub: either selects the same rows.
        paths = {*known["path"][known["encoder"].eq(encoder)], encoder} - {""}
        same = rows["path"].isin(paths) | rows["encoder"].eq(encoder)
        if not same.any():
            check_choice("encoder", encoder, list(rows["encoder"].unique()))
        return rows[same]
    is_copy = rows["path"].map(lambda path: has_name_of(encoder, path))
    is_copy &= ~rows["trained"]
    note = is_copy.map({True: IS_COPY, False: OTHER_NAME})
    placed = rows.assign(opened=encoder, context=~is_copy, note=f"{encoder} " + note)
    return placed[is_copy | placed["by_id"]] if is_copy.any() else placed


def _open_encoder(
    row: Any, load_network: Callable[[str, str], SentenceEncoder]
) -> Encoder:
    """The encoder of a row, read as the row says."""
    if row.trained and not (row.by_id and row.context):
        raise UserError(
            "this row requires a trained one; expected its run folder, and the "
            "id of the row",
            argument="encoder",
        )
    is_file = user_path(row.opened).is_file()
    if is_file == bool(row.path):
        kind = "an encoder" if row.path else "a text file of word vectors"
        received = repr(row.opened) if row.opened else "nothing"
        raise UserError(f"received {received}; expected {kind}", argument="encoder")
    if is_file:
        return load_encoder(row.opened)
    return load_network(row.opened, row.pooling).read(
        layers=row.layers, max_length=row.max_length, template=row.template
    )


def _merge(row: Any, tasks: Mapping[str, Task], ours: pd.DataFrame) -> pd.DataFrame:
    """A line for each task of a published row, and for their average: its scores and ours.

    Args:
        row: The published row.
        tasks: Its tasks by their name in the papers.
        ours: Rows of results of its setting, with averages and means over seeds.
    """
    published = pd.Series({name: getattr(row, name) for name in tasks}, dtype=float)
    others = pd.Series(
        {
            name: _other_pairs(name, task, row.aggregation)
            for name, task in tasks.items()
        }
    )
    differences = [
        f"{', '.join(same.index)}: {text}"
        for text, same in others.groupby(others, sort=False)
        if text
    ]
    note = "; ".join(filter(None, [row.note, *differences]))
    of_row = ours["metric"].eq("spearman") & ours["aggregation"].eq(row.aggregation)
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
            "aggregation": row.aggregation,
            "published": published,
            "ours": scores["value"],
            "low": scores["low"],
            "high": scores["high"],
            "std": scores["std"],
            "difference": (scores["value"] - published).where(is_target),
            "note": [f"{note}; {x}".strip("; ") for x in reasons],
        }
    )


def _other_pairs(name: str, task: Task, aggregation: str) -> str:
    """Difference between the pairs of a task and those of the papers; empty without any."""
    expected = PUBLISHED_TASKS[name]
    if task.count != expected:
        return f"{task.count} pairs here, {expected} in SentEval"
    if ("spearman", aggregation) not in task.metrics:
        return f"merged subsets here, so no aggregation {aggregation}"
    return ""
