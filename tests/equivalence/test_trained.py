"""One training of an encoder: every way gives the same figures, or refuses in one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytorch_lightning import Trainer, seed_everything

from equivalence.ways import (
    TRAINER,
    Done,
    Interrupt,
    Lab,
    differences,
    rows_of,
    unless_refused,
)
from flowbert.cli import main
from flowbert.encoders import EncoderOptions, SentenceEncoder
from flowbert.encoding import encode
from flowbert.experiments import Results, compare
from flowbert.exports import SentenceTransformers, export
from flowbert.fitting.prepare import TRAINER_DEFAULTS
from flowbert.methods import METHODS, TextDataModule, make_examples
from flowbert.model import Model
from flowbert.training.trainer import quiet_lightning
from flowbert.vectors import EmbeddingCache

TRAINED = [name for name in METHODS if name != "flow"]
SLOW = pytest.mark.slow
FIRST_OR_SLOW = [TRAINED[0], *(pytest.param(each, marks=SLOW) for each in TRAINED[1:])]
OPTIONS: dict[str, Any] = {"data": {"batch_size": 8}}
SOURCES: dict[str, dict[str, Any]] = {
    "simcse": {"corpus": "target"},
    "sbert": {"nli": "builtin-sample"},
    "mlm": {"corpus": "target"},
}
# One epoch: the last weights are the best ones.
ONE_EPOCH = TRAINER | {"max_epochs": 1, "limit_val_batches": 0}


class Trainings:
    """Runs of the methods that train an encoder, in a lab."""

    def __init__(self, lab):
        self.lab = lab
        self._runs = {}

    def run(self, method, **options):
        trainer = ONE_EPOCH | options.pop("trainer", {})
        given = OPTIONS | SOURCES[method] | {"max_sentences": 48} | options
        return self.lab.run(method, trainer=trainer, **given)

    def fitted(self, method):
        """The finished fit; fitted once."""
        if method not in self._runs:
            self._runs[method] = self.run(method)
        return self._runs[method]

    def reference(self, method):
        return rows_of(self.fitted(method).results, method)


@pytest.fixture(scope="session")
def trainings(lab):
    return Trainings(lab)


def file_of_a_fit(of, method):
    """``fit``, as its file says."""
    return rows_of(Results.load(of.fitted(method).folder / "results.json"), method)


def command_line(of, method):
    """The command ``fit``."""
    folder = of.lab.new_folder()
    data = of.lab.data | {"max_sentences": 48}
    options = {"method": method, "run_dir": folder, **data, **OPTIONS}
    options |= SOURCES[method]
    options["encoder.layers"] = of.lab.options.layers
    options |= {f"data.{name}": value for name, value in options.pop("data").items()}
    options |= {f"trainer.{name}": value for name, value in ONE_EPOCH.items()}
    main(["fit", "--quiet", *(f"--{name}={value}" for name, value in options.items())])
    return rows_of(Results.load(folder / "results.json"), method)


def by_test(of, method):
    """``test`` with the checkpoint of the fit."""
    return rows_of(of.lab.measured(of.fitted(method)), method)


def resumed(of, method):
    """``fit`` that is interrupted and resumed."""
    stopped = Done(of.lab.new_folder(), None)
    checkpoint = {"every_n_steps": 1}
    trainer = {"callbacks": [Interrupt(4)]}
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        of.run(method, run_dir=stopped.folder, checkpoint=checkpoint, trainer=trainer)
    again = of.run(method, checkpoint=checkpoint, ckpt_path=stopped.checkpoint)
    return rows_of(again.results, method)


def resumed_from_fewer_steps(of, method):
    """``fit`` of a few steps, and again for all."""
    first = of.run(method, trainer={"max_steps": 3})
    return rows_of(of.run(method, ckpt_path=first.checkpoint).results, method)


def python(of, method):
    """Module, data and Trainer put together by hand."""
    lab = of.lab
    corpus = lab.task.corpus("target") if "corpus" in SOURCES[method] else None
    nli = SOURCES[method].get("nli")
    text = {"simcse": "dropout", "sbert": "softmax"}.get(method, "sentences")
    examples = make_examples(text, corpus, nli=nli, tasks=[lab.task]).sample(48, 0)
    encoder = SentenceEncoder(layers=lab.options.layers, frozen=False)
    kind: Any = METHODS[method]
    module = kind(encoder)
    data = TextDataModule(encoder, examples, batch_size=8)
    seed_everything(0, verbose=False)
    with quiet_lightning():
        options = TRAINER_DEFAULTS | ONE_EPOCH | {"enable_checkpointing": False}
        Trainer(**options).fit(module, datamodule=data)
    trained = module.trained_encoder().requires_grad_(False).eval()
    return lab.measure(EmbeddingCache().rows(trained, lab.task.sentences)[:])


def saved_encoder(of, method):
    """The encoder of the fit, loaded."""
    folder = of.fitted(method).folder
    results = compare(str(folder), "raw", bootstrap=0, **of.lab.data)
    unknown = ("method", "corpus", "seed", "supervised")
    return rows_of(results, "raw", unknown)


def saved_model(of, method):
    """The model of the fit, given to ``compare``."""
    model = Model.load(of.fitted(method).folder)
    results = of.lab.compare({method: model})
    return rows_of(results, method, ("corpus", "seed", "supervised"))


FIGURES = [
    file_of_a_fit,
    command_line,
    by_test,
    resumed,
    resumed_from_fewer_steps,
    python,
    saved_encoder,
    saved_model,
]


# The default run has every way of the first method.
@pytest.mark.parametrize("way", FIGURES)
@pytest.mark.parametrize("method", FIRST_OR_SLOW)
def test_figures(method, way, trainings):
    rows = unless_refused(way, trainings, method)
    if rows is None:
        assert way in (resumed, resumed_from_fewer_steps)
    else:
        assert differences(rows, trainings.reference(method)) == ""


@pytest.fixture(scope="session")
def words(lab, tmp_path_factory):
    """Trainings of token embeddings and token weights."""
    options = EncoderOptions(layers=0, pooling="learned_weights")
    folder, senteval = tmp_path_factory.mktemp("words"), Path(lab.data["senteval"])
    return Trainings(Lab(folder, options, lab.data["tasks"], senteval))


# The encoder before the training, beside which a model is compared.
@pytest.mark.filterwarnings("ignore:encoder. .* has no learned token weights")
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(by_test, marks=SLOW),
        pytest.param(resumed, marks=SLOW),
        saved_encoder,
        saved_model,
    ],
    ids=lambda way: way.__name__,
)
def test_figures_with_learned_token_weights(way, words):
    rows = unless_refused(way, words, "simcse")
    if rows is None:
        assert way is resumed
    else:
        assert differences(rows, words.reference("simcse")) == ""
    weights = SentenceEncoder(str(words.fitted("simcse").folder)).token_weights
    assert weights is not None
    assert weights.std() > 0


@pytest.mark.parametrize("method", FIRST_OR_SLOW)
def test_figures_of_the_development_split(method, trainings):
    """Those of ``validate`` are those of the saved encoder."""
    folder = trainings.fitted(method).folder
    validated = trainings.lab.measured(trainings.fitted(method), "validate")
    results = compare(
        str(folder), "raw", split="dev", bootstrap=0, **trainings.lab.data
    )
    unknown = ("method", "corpus", "seed", "supervised")
    rows = rows_of(validated, method, unknown)
    assert differences(rows, rows_of(results, "raw", unknown)) == ""


def encoded(of, method):
    """``encode`` with the model of the fit."""
    folder = str(of.fitted(method).folder)
    return np.asarray(encode(of.lab.task.sentences, encoder=folder))


def sentence_transformers(of, method):
    """sentence-transformers with the exported folder."""
    to = export(of.fitted(method).folder, of.lab.new_folder())
    return np.asarray(SentenceTransformers().encode(to, of.lab.task.sentences))


# As in test_maps.py: other passes of the encoder.
TOLERANCE = 2 * SentenceTransformers.tolerance


@pytest.mark.parametrize(
    "way", [encoded, pytest.param(sentence_transformers, marks=SLOW)]
)
@pytest.mark.parametrize("method", FIRST_OR_SLOW)
def test_vectors(method, way, trainings):
    cosines = trainings.lab.task.items(way(trainings, method))
    results = trainings.fitted(method).results
    (items,) = results.items.values()
    (cell,) = set(results.frame.loc[results.frame["method"] == method, "experiment"])
    np.testing.assert_allclose(cosines, items[cell], rtol=0, atol=TOLERANCE)
