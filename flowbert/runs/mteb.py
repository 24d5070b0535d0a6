"""MTEB's own evaluation of a fitted model: its tasks, its scores, its result files."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flowbert.data.sts import SAMPLE, STSTask, load_task
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import encoder_columns
from flowbert.evaluation.results import Row, fingerprint, merge_results
from flowbert.io.hub import first_line
from flowbert.io.run_folder import RunFolder
from flowbert.methods.embedder import Embedder, default_method, load
from flowbert.processes import current, leave_to_first
from flowbert.progress import Step, progress, shown
from flowbert.runs.pages import write_page
from flowbert.store.embedding_store import MemoryStore

LOCAL = {**{f"STS{year}": f"STS{year}" for year in range(12, 17)}, "STSBenchmark": "STSB", "SICK-R": "SICKR"}
"""MTEB's names of the tasks that a SentEval folder holds, and ours."""


def mteb(
    model: str | Path,
    *,
    tasks: str | list[str] = SAMPLE,
    senteval: str | Path | None = None,
    method: str | None = None,
    output: str | Path = "runs/mteb",
    device: torch.device | str = "cpu",
) -> dict[str, float]:
    """Run ``mteb.evaluate`` on a model, and write what it gives as MTEB lays it out.

    The files are ``OUTPUT/results/<model>/<revision>/<task>.json``. The main scores stand in ``OUTPUT/scores.json``,
    too, with their page ``scores.html``, beside those of other models that were measured into the same folder. STS
    tasks read from a SentEval folder have as many pairs as MTEB's own data sets; of SICK-R these are all 9,927, not the
    test split alone.

    References:
        MTEB: Massive Text Embedding Benchmark (Muennighoff et al., 2023). https://arxiv.org/abs/2210.07316

    Args:
        model: Run folder of a finished fit, an exported model, one on the hub, or an encoder as it is.
        tasks: MTEB's names, with commas or a list: STS12..STS16, STSBenchmark, SICK-R, any other; or SAMPLE.
        senteval: Folder that STS tasks are read from; default, or ``hub``: MTEB fetches their data.
        method: Map of the model: flow, whitening or raw; default: the flow if there is one.
        output: Folder to write into.
        device: Where to compute.

    Returns:
        MTEB's main score of each task: for STS the Spearman correlation of cosine and gold score over all pairs.

    Raises:
        UserError: If the package mteb is not installed, or for a mistake in the arguments or files.
    """
    try:
        import mteb as package
    except ImportError as error:
        raise UserError(f"mteb: {error}; allowed: pip install 'flowbert[mteb]'") from None
    names = [name.strip() for name in (tasks.split(",") if isinstance(tasks, str) else tasks)]
    local = {name: data for name in names if (data := _local_data(name, senteval)) is not None}
    chosen = [_sample_task() if name == SAMPLE else _task(name) for name in names]
    embedder = load(model, method)
    embedder.encoder.to(device)
    named = "-".join(part for part in (*Path(model).parts[-2:], method or "") if part.strip("/"))
    shared: Any = _SharedEncoder(embedder.encoder)  # what an embedder needs of an encoder
    encoder = _MTEBEncoder(Embedder(shared, embedder.fitted), f"flowbert/{named}", embedder.encoder.max_length)
    used = "raw" if embedder.fitted is None else method or default_method(RunFolder.find(model))
    setting = encoder_columns(embedder.encoder) | {"encoder": str(model), "method": used}
    setting |= {"corpus": "none", "split": "test"}
    if not current().is_global_zero:
        shared.serve()
        leave_to_first()
    scores, rows = {}, []
    for name, task in zip(names, chosen, strict=True):
        load_data(task, name, local.get(name))
        with warnings.catch_warnings(), progress(None, f"Evaluating {name}", "sentences") as step:
            encoder.step = step
            # Who asks for a task by name gets it, whatever has followed it.
            warnings.filterwarnings("ignore", message=".*is superseded by.*")
            (result,) = package.evaluate(encoder, task, cache=None, co2_tracker=False, show_progress_bar=False)
        package.ResultCache(output).save_to_cache(result, encoder.mteb_model_meta)
        scores[name] = float(result.get_score())
        metric = {"cosine_spearman": "spearman"}.get(task.metadata.main_score, task.metadata.main_score)
        figure = {"task": name, "aggregation": "all", "metric": metric, "value": scores[name], "pairs": 0}
        rows.append(Row(**setting, **figure))
        task.unload_data()
    shared.end()
    told = ", ".join(f"{name} {100 * score:.2f}" for name, score in scores.items())
    verdict = f"{model}, {used}: MTEB's main scores x 100: {told}"
    merge_results(Path(output) / "scores.json", rows, fingerprint(device=device) | {"verdicts": [verdict]})
    write_page(Path(output) / "scores.json")
    return scores


class _SharedEncoder:
    """An encoder whose work all processes share. MTEB runs in the first one, the others encode what it asks for."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.device = encoder.device
        self._encoder = encoder

    def encode(self, sentences: list[str], *, on_batch: Callable[[int], Any]) -> npt.NDArray[np.float32]:
        """Embed N sentences: ``(N, D)``, float32; called in the first process."""
        current().broadcast(sentences)
        with shown(False):  # the embedder shows its own
            vectors = self._shared(sentences)
        on_batch(len(sentences))
        return vectors

    def serve(self) -> None:
        """Do a share of whatever the first process asks for, until it ends."""
        while (sentences := current().broadcast(None)) is not None:
            self._shared(sentences)

    def end(self) -> None:
        """Let the others end."""
        current().broadcast(None)

    def _shared(self, sentences: list[str]) -> npt.NDArray[np.float32]:
        store = MemoryStore(self._encoder)
        store.share(sentences, current())
        return store.take(store.rows(sentences))


class _MTEBEncoder:
    """An embedder as MTEB's ``EncoderProtocol`` wants it; sentences come in loaders of batches."""

    step: Step  # of the task that is evaluated

    def __init__(self, embedder: Embedder, name: str, max_tokens: int) -> None:
        from mteb.models import ModelMeta
        from mteb.similarity_functions import cos_sim, pairwise_cos_sim

        self._embedder = embedder
        self.mteb_model_meta = ModelMeta.create_empty({"name": name, "max_tokens": max_tokens})
        self.similarity, self.similarity_pairwise = cos_sim, pairwise_cos_sim

    def encode(self, inputs: Any, **_: Any) -> Any:
        """Embed the texts of all batches: ``(N, k)``, float32; the encoder makes batches of its own."""
        texts = [text for batch in inputs for text in batch["text"]]
        vectors = self._embedder.encode(texts)
        self.step.update(len(texts))
        return vectors


def _local_data(name: str, senteval: str | Path | None) -> STSTask | None:
    """Pairs of an STS task, if MTEB need not fetch them."""
    if name == SAMPLE:
        return load_task(SAMPLE)
    return load_task(LOCAL[name], senteval) if senteval not in (None, "hub") and name in LOCAL else None


def _task(name: str) -> Any:
    import mteb as package

    try:
        return package.get_task(name)
    except KeyError as error:
        found = error.args[0].removeprefix("KeyError: ")
        raise UserError(
            f"tasks: received {name!r}; allowed: {SAMPLE}, or the name of a task of MTEB ({found})"
        ) from None


def _sample_task() -> Any:
    """The built-in sample as a task of MTEB's."""
    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    metadata = TaskMetadata(
        name=SAMPLE,
        description="The generated text that comes with flowbert; its figures say nothing about real text.",
        dataset={"path": "flowbert/sample", "revision": "0"},
        type="STS",
        eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
    )
    return type("Sample", (AbsTaskSTS,), {"metadata": metadata})()


def load_data(task: Any, name: str, local: STSTask | None) -> None:
    """Give a task its pairs, or have MTEB fetch its data."""
    if local is None:
        try:
            task.load_data()
        except OSError as error:
            reason = f"its data cannot be fetched ({first_line(error)})"
            raise UserError(f"tasks: {name}: {reason}; allowed offline: {', '.join(LOCAL)} with senteval") from error
        return
    from datasets import Dataset

    splits = local.splits if name == "SICK-R" else {"test": local.split("test")}
    subsets = [subset for split in splits.values() for subset in split]
    pairs = {
        "sentence1": [sentence for subset in subsets for sentence in subset.sentences1],
        "sentence2": [sentence for subset in subsets for sentence in subset.sentences2],
        "score": [float(score) for subset in subsets for score in subset.scores],
    }
    task.dataset, task.data_loaded = {"default": {"test": Dataset.from_dict(pairs)}}, True
