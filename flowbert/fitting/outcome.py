"""Steps after a fit: methods to compare, the saved model, results and page."""

from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch
from pytorch_lightning.loggers import CSVLogger

from flowbert.encoders import SentenceEncoder, digests_reused
from flowbert.errors import UserError
from flowbert.experiments import Results
from flowbert.experiments.plan import Method, plan_experiments
from flowbert.experiments.run import fit_map, run_experiments
from flowbert.maps import Flow, LabelledPairs, Raw
from flowbert.maps.flow_module import FlowModule
from flowbert.model import Model
from flowbert.options import FitOptions
from flowbert.progress import tell
from flowbert.registry import import_object
from flowbert.seeding import Stream
from flowbert.tasks import Task
from flowbert.training import RowsDataModule, read_checkpoint
from flowbert.training.evaluation import score_name
from flowbert.vectors import EmbeddingCache

_DENSITY_ROWS = 20_000  # rows that Gaussians are fitted on, to compare the flow with
_COUNTED = 100_000  # sentences whose tokens are counted for the page
_NOT_MEASURED = (
    "Saved, but not measured, as no tasks were given: --tasks pairs.csv measures the gain on your "
    "pairs (columns sentence1, sentence2, score, or --columns a,b,c)."
)


def list_maps(
    options: FitOptions,
    module: Any,
    closed_form: Any,
    data: RowsDataModule,
    pairs: LabelledPairs | None,
    trainer: Any,
) -> list[Method]:
    """The map that is fitted in closed form, or the baseline and the trained flow.

    Args:
        options: The options.
        module: The module after the training; None for a map.
        closed_form: The map, which this function fits, or the baseline, fitted by the Trainer.
        data: The vectors.
        pairs: Labelled pairs that the map learns from.
        trainer: The Trainer.

    Raises:
        UserError: If the map is undefined.
    """
    seed, rows = options.seed, data.all_rows
    # Without random numbers a map depends on the seed of max_sentences alone.
    fixed = None if options.max_sentences is None else seed
    if module is None:
        device = trainer.strategy.root_device
        fitted, reason = fit_map(
            closed_form, rows, pairs=pairs, seed=seed, device=device
        )
        if reason is not None:
            raise UserError(f"{options.method}: {reason}", argument="method")
        used = seed if fitted.seeded else fixed
        return [Method(options.method, fitted, data.name, used)]
    last = Path(trainer.default_root_dir) / "checkpoints" / "last.ckpt"
    # After forked processes have trained, Lightning restores the weights alone in this one.
    if last.is_file() and not module.fit_parameters:
        module.fit_parameters = read_checkpoint(last)["fit_parameters"]
    flow = Method("flow", Flow.from_module(module), data.name, seed)
    if closed_form is None:
        return [flow]
    if not closed_form.is_fitted:  # by forked processes alone
        closed_form.fit(data.rows, pairs=pairs)
    return [Method(closed_form.text, closed_form, data.name, fixed), flow]


def save(
    options: FitOptions, encoder: Any, methods: Sequence[Method], folder: Path
) -> None:
    """Save the maps, or the trained encoder, into ``model/``."""
    tell("saving the model")
    model = folder / "model"
    if options.trains_encoder:
        rmtree(model, ignore_errors=True)  # of a resumed run that was interrupted here
        trained: Any = methods[0].encoder
        trained.save(model / "encoder")
        return
    with digests_reused():
        # The trained map, which encode takes, is first.
        for method in reversed(methods):
            Model(encoder, method.map).save(model)


def measure(
    options: FitOptions,
    encoder: Any,
    methods: Sequence[Method],
    tasks: Sequence[Task],
    cache: EmbeddingCache,
    device: Any,
) -> Results:
    """Compare with the raw embeddings; returns empty results without tasks.

    Args:
        options: The options.
        encoder: The encoder before the training.
        methods: Methods to compare.
        tasks: Tasks to measure on.
        cache: The embedding cache.
        device: Device of the encoder.
    """
    results = Results([], {})
    if tasks:
        tell(f"evaluating on {', '.join(task.name for task in tasks)}")
        measured = [method for method in methods if method.name != "raw"]
        compared = [Method("raw", Raw()), *measured]
        corpora = dict.fromkeys(tasks, ())
        experiments = plan_experiments([encoder], compared, corpora, {})
        results = run_experiments(experiments, cache, device=device)
        results.add_intervals(options.bootstrap, options.bootstrap_seed)
    elif options.vectors is None:
        results.about["verdicts"] = [_NOT_MEASURED]
    return results


def log_scores(trainer: Any, results: Results) -> None:
    """Log the scores to all loggers except metrics.csv; results.csv has them."""
    scores = {
        score_name(
            row.method, row.task, row.split, row.metric, row.aggregation
        ): row.value
        for row in results.frame.itertuples()
    }
    for logger in trainer.loggers:
        if scores and not isinstance(logger, CSVLogger):
            logger.log_metrics(scores, trainer.global_step)
            logger.finalize("success")


def write_analysis(
    folder: Path,
    results: Results,
    seed: int,
    encoder: Any,
    source: Any,
    module: Any,
    data: Any,
) -> None:
    """Write the analysis of the results, if they contain vectors.

    Args:
        folder: The run folder.
        results: The results.
        seed: Seed of the samples.
        encoder: The encoder before the training; None for vectors.
        source: Corpus, examples or vectors.
        module: The module after the training; None for a map.
        data: The data module.
    """
    if not results.vectors:
        return
    parts = _densities(module, data, seed)
    if isinstance(encoder, SentenceEncoder):
        corpus = source.sentences[:_COUNTED]
        parts |= {"encoder": encoder, "corpus": corpus, "tokens": 500}
    analyze_results = import_object("flowbert.extras.analysis.analyze.analyze_results")
    analyze_results(results, seed=seed, **parts).to_json(folder / "analysis.json")


def _densities(module: Any, data: Any, seed: int) -> dict[str, Any]:
    """The flow, and vectors to measure its density and that of Gaussians on."""
    if not isinstance(module, FlowModule) or module.invalid_reason is not None:
        return {}
    rows, held = data.rows, data.held_out_rows
    if len(held) < 2 or len(rows) <= rows.shape[1]:
        return {}
    # Few rows would fit the Gaussians worse than the flow, which has seen all.
    fitting = rows.sample(_DENSITY_ROWS, Stream(seed, "density"))
    return {
        "flows": {"flow": module.flow},
        "fitting": torch.from_numpy(rows[fitting]),
        "held_out": torch.from_numpy(held[:]),
    }
