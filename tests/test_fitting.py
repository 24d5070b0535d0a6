"""Runs: prepared, trained, compared with their baselines, saved, and resumed."""

import json
import os
import random
import resource
import shutil
import signal
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from numpy.testing import assert_array_equal
from pytorch_lightning import Callback

import flowbert
from equivalence.ways import Interrupt, write_task
from experiments.small import write_pairs
from flowbert.cli import main
from flowbert.data.corpus import load_corpus
from flowbert.encoders import EncoderOptions, SentenceEncoder
from flowbert.experiments import Results, compare
from flowbert.extras.report import report
from flowbert.fitting import fit, predict, validate
from flowbert.fitting import test as run_test
from flowbert.fitting.parts import load_source, make_loggers
from flowbert.maps import Flow, load_map, make_map
from flowbert.methods import FlowModule, TextDataModule, make_examples
from flowbert.model import Model
from flowbert.options import TRAINED_METHODS, FitOptions
from flowbert.tasks import load_tasks
from flowbert.training import read_checkpoint
from flowbert.vectors import EmbeddingCache
from helpers import draw_nothing, refused

BUILTIN = "builtin-sample"
TRAINER: dict[str, Any] = {
    "accelerator": "cpu",
    "max_epochs": 2,
    "log_every_n_steps": 1,
    "enable_progress_bar": False,
}
FLOW: dict[str, Any] = {
    "corpus": BUILTIN,
    "max_sentences": 300,
    "baseline": "whitening:shrinkage=0.1",
    "bootstrap": 20,
    "data": {"held_out": 0.1},
    "positive_above": 0.3,
    "trainer": TRAINER,
}
TEXT = {
    "max_sentences": 48,
    "data": {"batch_size": 8},
    "bootstrap": 20,
    "trainer": {**TRAINER, "limit_val_batches": 0},
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A task of 40 pairs."""
    return write_pairs(tmp_path_factory.mktemp("task") / "pairs.tsv", count=40)


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    """Options of a small task with three splits."""
    sizes = {"train": 40, "dev": 20, "test": 30}
    folder = write_task(tmp_path_factory.mktemp("splits"), sizes)
    return {"tasks": "Chinese-STS-B", "senteval": str(folder)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a finished fit of a flow."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOWBERT_REPORT", "1")
        draw_nothing(patch)
        fit("flow", **FLOW, run_dir=folder)
    return folder


def last(folder):
    return folder / "checkpoints" / "last.ckpt"


def test_a_run_folder_holds_everything(run, tmp_path, monkeypatch):
    names = {path.name for path in run.iterdir()}
    files = ("metrics.csv", "results.json", "results.csv", "analysis.json")
    assert names >= {*files, "report.html", "figures", "checkpoints", "model"}
    assert {path.name for path in (run / "model").iterdir()} == {
        "encoder.json",
        *(f"{name}.safetensors" for name in ("whitening", "flow")),
    }
    metrics = pd.read_csv(run / "metrics.csv")
    assert metrics["step/nll"].notna().sum() == 2 * (300 // 64)
    for method in ("raw", "whitening:shrinkage=0.1", "flow"):
        assert f"{method}/SAMPLE/dev/spearman_wmean" in metrics
    (task,) = load_tasks("SAMPLE", split="dev", positive_above=FLOW["positive_above"])
    record = task.measure(torch.from_numpy(SentenceEncoder().encode(task.sentences)))
    logged = metrics["raw/SAMPLE/dev/alignment"].dropna().iloc[-1]
    # Logged in float32.
    assert logged == pytest.approx(record.scores["alignment", "all"], rel=1e-6)
    analysis = json.loads((run / "analysis.json").read_text())
    assert {"words", "isotropy"} <= analysis.keys()
    read_checkpoint(last(run))
    run_test(run)  # tests/equivalence compares its figures with those of the fit
    refused(r"run_dir: .*test holds a finished run", run_test, run)
    draw_nothing(monkeypatch)
    again = report(run, tmp_path / "report.html")
    assert again.read_bytes() == (run / "report.html").read_bytes()


def test_an_encoder_trained_through_a_map_is_compared_with_it(splits, tmp_path):
    head = "whitening:shrinkage=0.30"
    trainer = {**TRAINER, "max_epochs": 1}
    options = {**TEXT, **splits, "corpus": BUILTIN, "trainer": trainer}
    options["model"] = {"head": head}
    results = fit("simcse", **options, run_dir=tmp_path)
    head = "whitening:shrinkage=0.3"
    through = f"simcse+{head}"
    assert set(results.frame["method"]) == {"raw", "simcse", head, through}
    examples = make_examples("dropout", BUILTIN).sample(48, 0)
    sentences = TextDataModule(SentenceEncoder(), examples, batch_size=8).sample(1000)
    (task,) = load_tasks(**splits)
    for name, encoder in (
        (head, SentenceEncoder()),
        (through, SentenceEncoder(str(tmp_path))),
    ):
        fitted = make_map(head).fit(encoder.encode(sentences))
        record = task.measure(
            torch.from_numpy(fitted.transform(encoder.encode(task.sentences)))
        )
        expected = record.scores["spearman", "all"]
        # Two neighbours of 30 pairs that change ranks move it by 12 / (30 * 899).
        assert results.score(name, "Chinese-STS-B") == pytest.approx(expected, abs=1e-3)


def test_the_best_weights_are_compared(splits, tmp_path):
    """Those of the best score on the development split, not the last ones."""
    trainer = {**TRAINER, "callbacks": Spoil()}
    options = {**TEXT, **splits, "corpus": BUILTIN, "trainer": trainer}
    options["checkpoint"] = {"every_n_minutes": None}
    results = fit("simcse", **options, run_dir=tmp_path)
    best = read_checkpoint(tmp_path / "checkpoints" / "best.ckpt")
    assert best["global_step"] == 6
    assert read_checkpoint(last(tmp_path))["global_step"] == 12
    score = results.score("simcse", "Chinese-STS-B")
    assert score > 0.2
    assert run_test(tmp_path).score("simcse", "Chinese-STS-B") == pytest.approx(
        score, abs=1e-6
    )


class Spoil(Callback):
    """Weights of noise before the last validation."""

    def on_validation_start(self, trainer, pl_module):
        if trainer.current_epoch == 1:
            for parameter in pl_module.parameters():
                torch.nn.init.normal_(parameter)


def test_predict(run):
    rows = SentenceEncoder().encode(load_corpus(BUILTIN).sample(300, 0).sentences)
    expected = Model.load(run, "flow").transform(rows)
    # Sums of float32 numbers of order 1 in another order: other sizes of the batches.
    np.testing.assert_allclose(np.load(predict(run)), expected, atol=1e-4)


def test_earlier_metrics_are_kept(tmp_path):
    for text in ("first", "second"):
        (tmp_path / "metrics.csv").write_text(text)
        (csv,) = make_loggers([], tmp_path)
    assert csv.log_dir == f"{tmp_path}/"
    assert (tmp_path / "metrics-1.csv").read_text() == "first"
    assert (tmp_path / "metrics-2.csv").read_text() == "second"
    assert not (tmp_path / "metrics.csv").exists()


def test_a_missing_split_is_told_before_any_pass(run, tmp_path, monkeypatch):
    def fail(*_):
        raise AssertionError("encoded")

    pairs = tmp_path / "pairs.csv"
    pairs.write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    monkeypatch.setattr(EmbeddingCache, "fill", fail)
    folder = tmp_path / "validate"
    refused(
        "pairs has no 'dev'; expected test",
        validate,
        run,
        tasks=str(pairs),
        run_dir=folder,
    )
    assert not folder.exists()


def test_sentences_in_memory_are_given_again(tmp_path):
    sentences = load_corpus(BUILTIN).sentences[:300]
    fit(**{**FLOW, "corpus": sentences}, run_dir=tmp_path / "run")
    run = tmp_path / "run"
    assert yaml.safe_load((run / "config.yaml").read_text())["corpus"] == "memory"
    refused("corpus: received 'memory'", validate, run, run_dir=tmp_path / "no")
    validate(run, corpus=sentences, run_dir=tmp_path / "validate")


def test_files_of_a_run_name_no_code_that_is_called(run, tmp_path):
    """Nor that of a module which is imported already."""
    changed = shutil.copytree(run, tmp_path / "run")
    config = yaml.safe_load((changed / "config.yaml").read_text())
    called = {"class_path": "os.mkdir", "init_args": {"path": str(tmp_path / "made")}}
    config["trainer"]["strategy"] = called
    (changed / "config.yaml").write_text(yaml.safe_dump(config))
    refused("trainer: received 'os.mkdir'", validate, changed, run_dir=tmp_path / "new")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", [np.save, np.asarray])
def test_vectors_in_place_of_sentences(kind, tmp_path):
    rows = np.random.default_rng(0).normal(size=(100, 6))
    vectors = tmp_path / "rows.npy"
    if kind is np.save:
        np.save(vectors, rows)
    else:
        vectors = kind(rows)
    flow = Flow(epochs=TRAINER["max_epochs"], accelerator="cpu").fit(rows)
    folder = tmp_path / "run"
    assert fit(vectors=vectors, trainer=TRAINER, run_dir=folder).frame.empty
    saved = load_map(folder / "model" / "flow.safetensors")
    np.testing.assert_array_equal(saved.transform(rows), flow.transform(rows))
    refused("was fitted on vectors", Model.load, folder)
    given = None if kind is np.save else rows
    assert np.load(predict(folder, vectors=given)).shape == (100, 6)
    other = "was fitted on other sentences or vectors"
    refused(other, predict, folder, vectors=rows + 1, run_dir=tmp_path / "p2")
    refused("vectors: received", fit, vectors=rows[0], run_dir=tmp_path / "p2")


def test_the_sentences_are_drawn_by_the_seed():
    options = FitOptions(**{**FLOW, "seed": 2})
    expected = load_corpus(BUILTIN).sample(300, 2)
    assert load_source(options, []).sentences == expected.sentences


def test_target_means_the_sentences_of_each_task(tmp_path):
    starts = {"one": 0, "two": 60}
    tasks = [write_pairs(tmp_path / f"{x}.tsv", starts[x]) for x in starts]
    # A comparison: each task's own. A fit: those of the first one, with another name.
    fitted = fit("standardization", tasks=",".join(tasks), run_dir=tmp_path / "run")
    compared = compare(methods="standardization", tasks=tasks)
    rows = fitted.frame[fitted.frame["method"] == "standardization"]
    assert set(rows["corpus"]) == {"one sentences"}
    assert set(compared.frame["corpus"]) == {"target"}
    one, two = (
        [each.score("standardization", name) for each in (fitted, compared)]
        for name in ("one", "two")
    )
    assert one[0] == pytest.approx(one[1])
    assert two[0] != pytest.approx(two[1])


def test_a_flow_is_recorded_as_it_was_trained(pairs, tmp_path):
    options = {
        **FLOW,
        "tasks": pairs,
        "model": {"levels": 1},
        "data": {"batch_size": 16, "held_out": 0.3, "init_size": 100},
        "trainer": {**TRAINER, "max_epochs": 5, "max_steps": 20},
    }
    results = fit(**options, run_dir=tmp_path)
    text = "flow:levels=1:steps=20:batch_size=16:init_size=100:held_out=0.3"
    module = FlowModule.load_from_checkpoint(last(tmp_path), weights_only=True)
    for saved in (
        load_map(tmp_path / "model/flow.safetensors"),
        Flow.from_module(module),
    ):
        assert saved.text == make_map(text).text
    # A comparison that is given the text trains the same flow.
    given = {"corpus": BUILTIN, "max_sentences": 300, "tasks": pairs}
    again = compare(methods={"flow": text}, **given)
    expected = results.score("flow", "pairs")
    assert again.score("flow", "pairs") == pytest.approx(expected, abs=1e-6)


SOURCE = "".join(
    path.read_text()
    for path in Path(flowbert.__file__).parent.rglob("*.py")
    if path.name != "options.py"
)


@pytest.mark.parametrize(
    "options", dict.fromkeys(x for each in TRAINED_METHODS.values() for x in each[1:])
)
def test_every_option_of_a_method_is_read(options):
    """One that was added and is not used anywhere has no effect (in full: test_options.py)."""
    names = [field.name for field in fields(options)]
    assert [name for name in names if f".{name}" not in SOURCE] == []


MISTAKES = [
    ({"method": "whitening-999"}, "999"),
    ({"seeds": 0, "method": "whitening-999"}, "999"),
    ({"seeds": 0, "ckpt_path": "a.ckpt"}, "ckpt_path: received 'a.ckpt'; .* last"),
    ({"log_to": ["wandb", "tensorbord"]}, "log_to: received 'tensorbord'"),
    ({"vectors": "none.npy", "max_sentences": None}, "none.npy: no such file"),
    ({"model": {"learning_rate": -1.0}}, "learning_rate: received -1.0"),
    ({"trainer": {"precision": 17}}, "^trainer: Precision 17 .*bf16-mixed"),
    ({"trainer": {"max_steps": -5}}, "^trainer: .max_steps. must be .*-5"),
    ({"trainer": {"val_check_interval": 999}}, "^trainer: .val_check_interval. .999"),
    ({"trainer": {"default_root_dir": "x"}}, "^trainer: .*default_root_dir"),
    ({"method": "sbert", "nli": "none.tsv"}, "none.tsv"),
    (
        {"method": "sbert", "model": {"objective": "cosine"}, "corpus": "nli"},
        "tasks: received none",
    ),
    (
        {"method": "sbert", "nli": BUILTIN, "data": {"positive": "crop"}},
        "data: .* unexpected .*'positive'",
    ),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_mistakes_are_seen_before_anything_is_written(options, message, tmp_path):
    folder = tmp_path / "run"
    refused(message, fit, **{"max_sentences": 300, "run_dir": folder, **options})
    assert not folder.exists()


def test_refused_checkpoints(run, tmp_path):
    def resume(**options):
        path = {"ckpt_path": last(run), "run_dir": tmp_path / "run"}
        fit(**{**FLOW, **path, **options})

    refused("ckpt_path: .* FlowModule; .* method simcse", resume, method="simcse")
    path = tmp_path / "other.ckpt"
    content = torch.load(last(run), weights_only=True)
    torch.save([1], path)
    refused("ckpt_path: .* is not a checkpoint of flowbert", resume, ckpt_path=path)
    torch.save({**content, "code": print}, path)
    refused("which could run code", resume, ckpt_path=path)
    path.write_bytes(last(run).read_bytes()[:5000])
    refused("ckpt_path: .* is damaged", resume, ckpt_path=path)


OTHER_ENCODERS: dict[str, Any] = {
    "layers": "first_last",
    "dtype": "bfloat16",
    "template": "query: {}",
}


def test_a_checkpoint_is_bound_to_its_encoder_and_corpus(run, tmp_path):
    options = {**FLOW, "ckpt_path": last(run)}
    options["run_dir"] = tmp_path / "run"
    for name, value in OTHER_ENCODERS.items():
        encoder = EncoderOptions(**{name: value})
        refused(f"encoder: received another .*{name} ", fit, **options, encoder=encoder)
    other = tmp_path / "other"
    network = SentenceEncoder(frozen=False)
    with torch.no_grad():
        next(iter(network.backbone.parameters())).mul_(1.5)
    network.save(other)
    refused(r"encoder: received another .*weights", fit, **options, encoder=str(other))
    message = "corpus: received 'SAMPLE train sentences' for"
    refused(message, fit, **{**options, "corpus": "train_only"})
    refused(message, predict, run, corpus="train_only", run_dir=tmp_path / "run")
    del options["bootstrap"]
    vectors = {"vectors": np.eye(128), "corpus": None, "max_sentences": None}
    refused("was fitted on other sentences or vectors", fit, **options | vectors)
    assert not (tmp_path / "run").exists()


def test_nothing_outlives_a_fit(pairs, tmp_path):
    """Neither variables of the environment, nor a handler, nor a state of random numbers."""

    def state():
        drawn = np.random.get_state(legacy=False)["state"]["key"].tolist()  # noqa: NPY002
        handler = signal.getsignal(signal.SIGINT)
        return [dict(os.environ), handler, drawn, random.getstate()]

    options = {**FLOW, "tasks": pairs}
    before, rng = state(), torch.get_rng_state()
    fit(**options, run_dir=tmp_path / "whole")
    trainer = {**TRAINER, "callbacks": Interrupt(6)}
    with pytest.raises(KeyboardInterrupt):
        fit(**{**options, "trainer": trainer}, run_dir=tmp_path / "stopped")
    assert state() == before
    assert torch.equal(torch.get_rng_state(), rng)
    assert not run_test(tmp_path / "stopped").frame.empty  # of its last checkpoint


class Full(Callback):
    """No file grows beyond 1,000 bytes from the first checkpoint on."""

    def on_save_checkpoint(self, *_):
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))


def test_a_checkpoint_that_cannot_be_written(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        refused(
            r"last\.ckpt: cannot be written \(.*large",
            fit,
            **{**FLOW, "trainer": {**TRAINER, "callbacks": Full()}},
            run_dir=tmp_path,
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_run_for_each_seed_and_their_comparison(run, tmp_path):
    options = {**FLOW, "seeds": [0, 1], "run_dir": tmp_path}
    both, one = fit(**options), Results.load(run / "results.json")
    assert both.score("flow", "SAMPLE", seed=0) == one.score("flow", "SAMPLE")
    assert both.frame["std"].max() > 0
    for folder in (tmp_path, tmp_path / "seed-1"):
        (folder / "results.json").unlink()
    again = fit(**options, ckpt_path="last")
    pd.testing.assert_frame_equal(again.frame, both.frame)
    refused("expected a run: .*seed-0, .*seed-1", validate, tmp_path)


@pytest.mark.filterwarnings("ignore:whitening. 19 directions in place of 128")
def test_closed_form_needs_no_trainer(pairs, tmp_path):
    given = {"corpus": BUILTIN, "max_sentences": 99, "tasks": pairs}
    options = EncoderOptions(pooling="idf")
    results = fit("raw", options, **given, bootstrap=0, run_dir=tmp_path / "raw")
    saved = compare(methods="raw", tasks=pairs, bootstrap=0).score("raw", "pairs")
    scores = [results.score("raw", "pairs", pooling=name) for name in ("mean", "idf")]
    assert scores[0] == saved != scores[1]
    refused("run: received .* is not trained", run_test, tmp_path / "raw")
    # Token weights are those of the corpus.
    sentences = load_corpus(BUILTIN).sample(99, 0).sentences
    counted = SentenceEncoder(pooling="idf", count_over=sentences)
    assert Model.load(tmp_path / "raw").encoder.identity == counted.identity
    message = r"method: whitening: .* N=20"
    refused(message, fit, "whitening", max_sentences=20, run_dir=tmp_path)


def test_a_model_is_no_encoder_of_a_fit(run, tmp_path):
    message = "encoder: received an object in memory; expected the path"
    refused(message, fit, "raw", Model.load(run), run_dir=tmp_path / "of-model")
    assert not (tmp_path / "of-model").exists()


def test_a_run_that_was_interrupted_after_its_model_resumes(tmp_path):
    run, pairs = tmp_path / "run", write_pairs(tmp_path / "pairs.tsv")
    words = "fit --method simcse --corpus builtin-sample --max_sentences 64 --quiet"
    words += f" --tasks {pairs} --bootstrap 0 --trainer.max_steps 1 --run_dir {run}"
    main(words.split())
    expected = Model.load(run).encode(["a dog runs"])
    (run / "results.json").unlink()
    main(["fit", "--resume", str(run), "--quiet"])
    assert (run / "results.json").is_file()
    assert_array_equal(Model.load(run).encode(["a dog runs"]), expected)
