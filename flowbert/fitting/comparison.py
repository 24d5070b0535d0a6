"""What follows a fit: methods to compare, the saved model, results and page."""

import os
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch
from pytorch_lightning.loggers import CSVLogger

from flowbert.encoders import SentenceEncoder, digests_reused
from flowbert.errors import UserError, warn
from flowbert.experiments import Results
from flowbert.experiments.plan import Method, plan_experiments
from flowbert.experiments.run import fit_map, run_experiments
from flowbert.fitting.prepare import Run, trains_encoder
from flowbert.maps import Flow, Raw, make_map
from flowbert.methods import FlowModule
from flowbert.methods.heads import HEADS, SAMPLED_ROWS
from flowbert.model import Model
from flowbert.progress import tell
from flowbert.registry import import_object
from flowbert.seeding import Stream
from flowbert.training import read_checkpoint
from flowbert.training.evaluation import score_name

_DENSITY_ROWS = 20_000  # rows that Gaussians are fitted on, to compare the flow with
_COUNTED = 100_000  # sentences whose tokens are counted for the page
_NOT_MEASURED = (
    "Saved, but not measured, as no tasks were given: --tasks pairs.csv measures the gain on your "
    "pairs (columns sentence1, sentence2, score, or --columns a,b,c)."
)


def list_methods(run: Run) -> list[Method]:
    """The baseline, if any, and what was fitted.

    Raises:
        UserError: If a map that is fitted in closed form is undefined.
    """
    if run.module is None:
        return [_fit_map(run)]
    if isinstance(run.module, FlowModule):
        return _flow_and_baseline(run)
    return _encoder_and_heads(run)


def _fit_map(run: Run) -> Method:
    """The map that is fitted in closed form."""
    name, seed = run.options.method, run.options.seed
    fitted, reason = fit_map(
        run.map, run.data.all_rows, pairs=run.pairs, seed=seed, device=run.device
    )
    if reason is not None:
        raise UserError(f"{name}: {reason}", argument="method")
    used = seed if fitted.seeded else _seed_of_subset(run)
    return Method(name, fitted, run.source.name, used)


def _seed_of_subset(run: Run) -> int | None:
    """The seed that a map depends on which draws no random numbers: that of ``max_sentences``."""
    return None if run.options.max_sentences is None else run.options.seed


def _flow_and_baseline(run: Run) -> list[Method]:
    """The trained flow, after the map that it is compared with."""
    module, corpus = run.module, run.source.name
    last = run.folder / "checkpoints" / "last.ckpt"
    if last.is_file() and not module.fit_parameters:  # forked processes have trained
        module.fit_parameters = read_checkpoint(last)["fit_parameters"]
    flow = Method("flow", Flow.from_module(module), corpus, run.options.seed)
    if run.map is None:
        return [flow]
    if not run.map.is_fitted:  # by forked processes alone
        run.map.fit(run.data.rows, pairs=run.pairs)
    return [Method(run.map.text, run.map, corpus, _seed_of_subset(run)), flow]


def _encoder_and_heads(run: Run) -> list[Method]:
    """The trained encoder; with a head that is a map, also both encoders through it."""
    module, corpus, seed = run.module, run.source.name, run.options.seed
    encoder = module.trained_encoder().to(run.device)
    raw = Raw().fit(torch.zeros(1, encoder.dim))
    methods = [Method(module.name, raw, corpus, seed, encoder)]
    head = module.head_name
    if head in HEADS:
        return methods
    sentences = run.data.sample(SAMPLED_ROWS)
    before = make_map(head).fit(run.cache.rows(run.encoder, sentences))
    after = make_map(head).fit(run.cache.rows(encoder, sentences))
    return [
        *methods,
        Method(head, before, corpus, seed),
        Method(f"{module.name}+{head}", after, corpus, seed, encoder),
    ]


def save(run: Run, methods: Sequence[Method]) -> None:
    """Save the maps, or the trained encoder, into ``model/``."""
    tell("saving the model")
    folder = run.folder / "model"
    if trains_encoder(run.options.method):
        rmtree(folder, ignore_errors=True)  # of a resumed run that was interrupted here
        run.module.trained_encoder().save(folder / "encoder")
        return
    with digests_reused():
        for method in reversed(
            methods
        ):  # the trained map, which encode takes, is first
            Model(run.encoder, method.map).save(folder)


def measure(run: Run, methods: Sequence[Method], warned: Sequence[str]) -> Results:
    """Compare with the raw embeddings; write results and page.

    Args:
        run: The run.
        methods: What is compared.
        warned: Warnings of the run, to which those of the comparison are added.

    Returns:
        The results; empty without tasks.
    """
    options = run.options
    results = Results([], {})
    if not run.tasks and options.vectors is None:
        results.about["verdicts"] = [_NOT_MEASURED]
    if run.tasks:
        tell(f"evaluating on {', '.join(task.name for task in run.tasks)}")
        measured = [method for method in methods if method.name != "raw"]
        compared = [Method("raw", Raw()), *measured]
        corpora = dict.fromkeys(run.tasks, ())
        experiments = plan_experiments([run.encoder], compared, corpora, {})
        results = run_experiments(experiments, run.cache, device=run.device)
        results.add_intervals(options.bootstrap, options.bootstrap_seed)
    results.about["warnings"] = list(warned)
    fitted_on = run.data.describe() | {"total": len(run.source)}
    results.about["fitted_on"] = fitted_on
    results.save(run.folder / "results.json")
    write_page(run.folder, run, results)
    _log_scores(run, results)
    return results


def _log_scores(run: Run, results: Results) -> None:
    """Log the scores to the loggers of the Trainer, but metrics.csv: results.csv has them."""
    scores = {
        score_name(
            row.method, row.task, row.split, row.metric, row.aggregation
        ): row.value
        for row in results.frame.itertuples()
    }
    for logger in run.trainer.loggers:
        if scores and not isinstance(logger, CSVLogger):
            logger.log_metrics(scores, run.trainer.global_step)
            logger.finalize("success")


def write_page(
    folder: Path, run: Run | None = None, results: Results | None = None
) -> None:
    """Write the page; what goes wrong is a warning, as the results are on the disk."""
    if os.environ.get("FLOWBERT_REPORT") == "0":
        return
    tell("writing the page")
    try:
        if run is not None and results is not None and results.vectors:
            parts = _densities(run)
            if isinstance(run.encoder, SentenceEncoder):
                corpus = run.source.sentences[:_COUNTED]
                parts |= {"encoder": run.encoder, "corpus": corpus, "tokens": 500}
            analyze = import_object("flowbert.extras.analysis.analyze.analyze_results")
            analysis = analyze(results, seed=run.options.seed, **parts)
            analysis.to_json(folder / "analysis.json")
        import_object("flowbert.extras.report.report")(folder)
    except Exception as error:
        message = f"{folder}: the page was not written ({error}); the results are saved"
        warn(message)


def _densities(run: Run) -> dict[str, Any]:
    """The flow, and vectors to measure its density and that of Gaussians on."""
    module = run.module
    if not isinstance(module, FlowModule) or module.invalid_reason is not None:
        return {}
    rows, held = run.data.rows, run.data.held_out_rows
    if len(held) < 2 or len(rows) <= rows.shape[1]:
        return {}
    # Few rows would fit the Gaussians worse than the flow, which has seen all.
    fitting = rows.sample(_DENSITY_ROWS, Stream(run.options.seed, "density"))
    return {
        "flows": {"flow": module.flow},
        "fitting": torch.from_numpy(rows[fitting]),
        "held_out": torch.from_numpy(held[:]),
    }
