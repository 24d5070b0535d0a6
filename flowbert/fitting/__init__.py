"""The functions that train a method, and that measure or use the trained model."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from flowbert.data.text_files import user_path
from flowbert.experiments import Results
from flowbert.experiments.compare import check_options
from flowbert.experiments.results import write_page
from flowbert.fitting.run import run
from flowbert.fitting.run_options import read_run, write_config
from flowbert.options import FitOptions, PredictOptions, RunOptions, takes
from flowbert.precision import usual_modes
from flowbert.progress import tell
from flowbert.registry import imports_refused
from flowbert.training.run_folder import claim_folder, is_first_process, new_folder

__all__ = [
    "fit",
    "predict",
    "test",
    "validate",
]


@takes(FitOptions)
@usual_modes()
def fit(options: FitOptions) -> Results:
    """Train a method, compare it with its baselines on the test split, save everything.

    Args:
        options: Fields of :class:`flowbert.options.FitOptions`, as arguments.

    A fit that resumes by ``ckpt_path`` takes the same options, except for length, devices and
    logging.

    Returns:
        The results of :func:`flowbert.compare`; empty on all processes but the first.

    Raises:
        UserError: If an argument is wrong; no file has been written then.
    """
    folder = user_path(options.run_dir or new_folder(options.method))
    if options.seeds is None:
        return run("fit", options, folder)
    return _fit_seeds(options, folder)


def _fit_seeds(options: FitOptions, folder: Path) -> Results:
    """Fit once per seed, and compare; a resumed fit reads what is finished."""
    seeds = check_options(options.seeds or (), None)
    is_first = is_first_process()
    resumed = options.ckpt_path and folder / "last.ckpt"
    with claim_folder(folder, resumed) if is_first else nullcontext():
        if is_first:
            write_config(options, folder)
        runs = []
        for number, seed in enumerate(seeds, 1):
            tell(f"seed {number} of {len(seeds)}")
            runs.append(_fit_seed(options, folder / f"seed-{seed}", seed))
        records = {record.key: record for each in runs for record in each.records}
        if not records:
            return runs[-1]
        results = Results.of(list(records.values()), runs[-1].about)
        warned = [text for each in runs for text in each.about["warnings"]]
        results.about["warnings"] = list(dict.fromkeys(warned))
        results.add_intervals(options.bootstrap, options.bootstrap_seed)
        results.save(folder / "results.json")
        write_page(folder)
    return results


def _fit_seed(options: FitOptions, folder: Path, seed: int) -> Results:
    finished, last = folder / "results.json", folder / "checkpoints" / "last.ckpt"
    if options.ckpt_path and finished.is_file():
        return Results.load(finished)
    ckpt_path = last if options.ckpt_path and last.is_file() else None
    changed = {"seed": seed, "seeds": None, "run_dir": folder, "ckpt_path": ckpt_path}
    return fit(**vars(options) | changed)


@takes(RunOptions)
@usual_modes()
def validate(options: RunOptions) -> Results:
    """Log the likelihood or loss of a run's checkpoint, and compare on the development split.

    Args:
        options: Fields of :class:`flowbert.options.RunOptions`, as arguments.
    """
    return _use_checkpoint("validate", options)


@takes(RunOptions)
@usual_modes()
def test(options: RunOptions) -> Results:
    """Log the likelihood or loss of a run's checkpoint, and compare on the test split.

    Args:
        options: Fields of :class:`flowbert.options.RunOptions`, as arguments.
    """
    return _use_checkpoint("test", options)


@takes(PredictOptions)
@usual_modes()
def predict(options: PredictOptions) -> Path:
    """Write the vectors of the corpus of a run into ``predictions.npy``.

    Args:
        options: Fields of :class:`flowbert.options.PredictOptions`, as arguments.

    Returns:
        Path of the file.
    """
    _use_checkpoint("predict", options)
    return (
        user_path(options.run_dir or user_path(options.run) / "predict")
        / "predictions.npy"
    )


def _use_checkpoint(command: str, changes: PredictOptions | RunOptions) -> Results:
    """Run a command with a checkpoint of a fit; no module named in its files is imported."""
    fitted = user_path(changes.run)
    options = replace(read_run(replace(changes, run=fitted)), run_dir=fitted)
    with imports_refused():
        return run(command, options, user_path(changes.run_dir or fitted / command))
