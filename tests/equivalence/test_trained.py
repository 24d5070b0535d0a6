"""One training of an encoder: every way gives the same figures."""

from typing import Any

import pytest
from pytorch_lightning import Trainer, seed_everything

from equivalence.test_maps import check_figures, check_vectors
from equivalence.ways import (
    TRAINED,
    TRAINER,
    VECTORS,
    Lab,
    by_test,
    by_validate,
    encoded,
    resumed,
    rows_of,
    saved_model,
)
from flowbert.encoders import SentenceEncoder
from flowbert.experiments import compare
from flowbert.methods import TextDataModule, make_examples
from flowbert.options import TRAINED_METHODS, TRAINER_DEFAULTS
from flowbert.registry import import_object
from flowbert.training.trainer import quiet_lightning
from flowbert.vectors import EmbeddingCache
from helpers import with_slow

# The default run has every way of the first method.
every_method = pytest.mark.parametrize("method", with_slow(TRAINED, TRAINED[:1]))
OPTIONS: dict[str, Any] = {"data": {"batch_size": 8}}
SOURCES: dict[str, dict[str, Any]] = {
    "simcse": {"corpus": "target"},
    "sbert": {"nli": "builtin-sample"},
    "mlm": {"corpus": "target"},
}
# One epoch: the last weights are the best ones.
ONE_EPOCH = TRAINER | {"max_epochs": 1, "limit_val_batches": 0}


class Trainings(Lab):
    """A lab of the methods that train an encoder."""

    unknown = (*Lab.unknown, "supervised")

    def run(self, method, **options):
        trainer = ONE_EPOCH | options.pop("trainer", {})
        given = OPTIONS | SOURCES[method] | {"max_sentences": 48} | options
        return super().run(method, trainer=trainer, **given)

    def reference(self, method, split="test"):
        if split == "test":
            return rows_of(self.fitted(method).results, method)
        return saved_encoder(self, method, split)


@pytest.fixture(scope="session")
def trainings(lab, tmp_path_factory):
    return Trainings(tmp_path_factory.mktemp("trainings"), lab.options, *lab.place)


def python(lab, method):
    """Module, data and Trainer put together by hand."""
    corpus = lab.task.corpus("target") if "corpus" in SOURCES[method] else None
    nli = SOURCES[method].get("nli")
    text = {"simcse": "dropout", "sbert": "softmax"}.get(method, "sentences")
    examples = make_examples(text, corpus, nli=nli, tasks=[lab.task]).sample(48, 0)
    encoder = SentenceEncoder(layers=lab.options.layers, frozen=False)
    kind: Any = import_object(TRAINED_METHODS[method].module)
    module = kind(encoder)
    data = TextDataModule(encoder, examples, batch_size=8)
    seed_everything(0, verbose=False)
    with quiet_lightning():
        options = TRAINER_DEFAULTS | ONE_EPOCH | {"enable_checkpointing": False}
        Trainer(**options).fit(module, datamodule=data)
    trained = module.trained_encoder().requires_grad_(False).eval()
    return lab.measure(EmbeddingCache().rows(trained, lab.task.sentences)[:])


def saved_encoder(lab, method, split="test"):
    """The encoder of the fit, loaded."""
    folder = str(lab.fitted(method).folder)
    results = compare(folder, "raw", split=split, bootstrap=0, **lab.data)
    return rows_of(results, "raw", ("method", *lab.unknown))


FIGURES = [by_test, resumed, python, saved_encoder, saved_model]


@pytest.mark.parametrize("way", FIGURES)
@every_method
def test_figures(method, way, trainings):
    check_figures(trainings, method, way)


@every_method
def test_figures_of_the_development_split(method, trainings):
    """Those of ``validate`` are those of the saved encoder."""
    check_figures(trainings, method, by_validate, "dev")


@pytest.mark.parametrize("way", with_slow(VECTORS, [encoded]))
@every_method
def test_vectors(method, way, trainings):
    check_vectors(trainings, method, way)
