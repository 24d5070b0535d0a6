"""Distillation: its losses, the targets of a teacher, and fits with teachers of every kind."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from fits import fit as train
from flowbert.data.sample import sample_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.fitting import FitOptions, fit
from flowbert.fitting.prepare import prepare_run
from flowbert.maps import make_map
from flowbert.methods import DistillationModule, make_examples, teach
from flowbert.methods.distillation import DISTILLATION_OBJECTIVES, compared_rows
from flowbert.methods.losses import distance_loss, listwise_loss
from flowbert.model import Model
from helpers import refused
from texts import CORPUS, examples, step, text_data, trainable

BUILTIN = "builtin-sample"

pytestmark = pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")


def test_losses_by_hand():
    u = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    t = torch.tensor([[0.0, 5.0], [3.0, 3.0]])
    # Angles of 90 and 45 degrees: 2 - 2 cos.
    assert float(distance_loss(u, t)) == pytest.approx((2 + 2 - 2**0.5) / 2)
    queue = torch.tensor([[1.0, 0.0], [0.0, 4.0]])
    # Cosines with the queue: of the student (1, 0), of the teacher (0, 1).
    high, low = 1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))  # the teacher's, at 0.5
    ours = -np.log1p(np.exp(-1)), -np.log1p(np.exp(1))  # the student's, at 1
    expected = low * (np.log(low) - ours[0]) + high * (np.log(high) - ours[1])
    found = float(listwise_loss(u[:1], t[:1], queue, 1.0, 0.5))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("objective", DISTILLATION_OBJECTIVES)
def test_a_student_that_is_its_teacher_has_nothing_to_learn(objective):
    encoder = trainable()
    made = make_examples("sentences", CORPUS).sample(16, 0)
    rows = encoder.encode(made.columns[0])
    data = text_data(encoder, teach(made, rows, rows))
    temperatures: dict[str, Any] = {}
    if objective == "listwise":
        temperatures = {"student_temperature": 0.1, "teacher_temperature": 0.1}
    module = DistillationModule(encoder, objective, dropout=0.0, **temperatures)
    module.fill_queue(data)
    loss, gradients = step(module, data.batch(0, list(range(8))))
    # Vectors of other batches, and 16 rows turned back and forth, in float32.
    assert abs(float(loss)) < 1e-5
    assert gradients.keys() == dict(module.named_parameters()).keys()


def cosines(rows):
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units @ units.T


@pytest.mark.parametrize("size", [3, 8, 20])
def test_targets_keep_the_cosines(size):
    rng = np.random.default_rng(0)
    made = make_examples("sentences", CORPUS).sample(40, 0)
    vectors = rng.normal(size=(40, size)).astype(np.float32)
    start = rng.normal(size=(40, 8)).astype(np.float32)
    targets: Any = teach(made, vectors, start).targets
    assert targets.shape == (40, 8)
    assert targets.dtype == np.float32
    if size <= 8:
        assert_allclose(cosines(targets), cosines(vectors), atol=1e-5)
    else:  # the best projection to 8 dimensions of unit-length vectors
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        left, values, _ = np.linalg.svd(units, full_matrices=False)
        kept = left[:, :8] * values[:8]
        assert_allclose(cosines(targets), cosines(kept), atol=1e-4)


def test_targets_are_turned_to_the_student():
    rng = np.random.default_rng(0)
    made = make_examples("sentences", CORPUS).sample(40, 0)
    start = rng.normal(size=(40, 8)).astype(np.float32)
    rotation = np.linalg.qr(rng.normal(size=(8, 8)))[0].astype(np.float32)
    targets: Any = teach(made, 2 * start @ rotation, start).targets
    expected = start / np.linalg.norm(start, axis=1, keepdims=True)
    assert_allclose(targets, expected, atol=1e-5)


def test_few_rows_are_compared():
    for size in (1, 16384, 16385, 1_000_000):
        count = len(range(size)[compared_rows(size)])
        assert min(size, 8192) <= count <= 16384


def test_examples_need_targets_of_the_student():
    module = DistillationModule(trainable())
    made = make_examples("sentences", CORPUS).sample(16, 0)
    with pytest.raises(ValueError, match=r"targets of shape None; expected .16, 128."):
        module.check_examples(made)
    rows = np.full((16, 4), np.nan, dtype=np.float32)
    refused(r"teacher: received one .* not finite", teach, made, rows, rows)


@pytest.mark.parametrize(
    "objective", ["listwise", pytest.param("l2", marks=pytest.mark.slow)]
)
def test_training_lowers_the_loss(objective, tmp_path):
    encoder = trainable(pooling="cls")
    module: Any = DistillationModule(encoder, objective, learning_rate=1e-3)
    of = examples("distillation", 160)
    data = text_data(encoder, of, held_out=0.1)
    losses = []
    for epochs in (0, 1):
        trainer = train(tmp_path, module=module, data=data, max_epochs=epochs)
        (metrics,) = trainer.validate(module, data, verbose=False)
        losses.append(metrics["val/loss"])
    assert losses[1] < 0.9 * losses[0]


FIT: dict[str, Any] = {
    "method": "distillation",
    "corpus": BUILTIN,
    "max_sentences": 48,
    "tasks": "SAMPLE",
    "bootstrap": 0,
}


def targets_of(teacher, folder, **options):
    """Targets of a prepared fit."""
    data = {"teacher": str(teacher), "batch_size": 8}
    given = FIT | {"data": data, "run_dir": folder / "run"} | options
    with prepare_run("fit", FitOptions(**given), given["run_dir"]) as run:
        return run.data.examples


def test_teachers(tmp_path):
    encoder = SentenceEncoder(layers="first_last")
    whitening = make_map("whitening-64:shrinkage=0.1")
    whitening.fit(encoder.encode(sample_corpus()[:500]))
    model = Model(encoder, whitening)
    model.save(tmp_path / "model")
    encoder.save(tmp_path / "encoder")
    for name, teacher in (("model", model), ("encoder", Model(encoder))):
        found = targets_of(tmp_path / name, tmp_path)
        sentences = found.columns[0]
        start = SentenceEncoder().encode(sentences)
        expected: Any = teach(found, teacher.embed(sentences), start).targets
        assert_allclose(found.targets, expected, atol=1e-5)


def test_refused_teachers(tmp_path):
    def learn(teacher, **options):
        targets_of(teacher, tmp_path, **options)

    rows = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    fit("whitening", vectors=rows, run_dir=tmp_path / "vectors")
    refused("teacher: .* was fitted on vectors", learn, tmp_path / "vectors")
    refused("teacher: .*none", learn, tmp_path / "none")
    nothing = {"data": {"batch_size": 8}}
    refused("teacher: received nothing; expected the folder", learn, "", **nothing)
    model = Model(SentenceEncoder())
    model.save(tmp_path / "damaged")
    file = tmp_path / "damaged" / "encoder.json"
    file.write_text(file.read_text().replace("builtin-sample", "other"))
    refused("teacher: .*damaged", learn, tmp_path / "damaged")
    for option in ("student_temperature", "teacher_temperature", "queue_size"):
        message = f"{option}: received 1, which has no effect .* objective l2"
        refused(message, learn, BUILTIN, model={option: 1})
    assert not (tmp_path / "run").exists()
