"""The whole chain on real data: every expected figure of the two real encoders within 0.02."""

import os
from pathlib import Path

import pytest
import torch
from helpers.held_figures import EXPECTED, TOLERANCE, Key
from torch import Tensor

from flowbert.data.corpus import load_corpus
from flowbert.data.sts import TASKS, load_task
from flowbert.encoders import SentenceEncoder
from flowbert.errors import FlowbertWarning
from flowbert.methods import make_calibration
from flowbert.tasks import embed_pairs, evaluate_pairs

pytestmark = [
    pytest.mark.real,
    # Three dimensions of all-MiniLM-L6-v2 and one direction of minilm-mlm's last layer do not vary.
    pytest.mark.filterwarnings("ignore:whitening:flowbert.errors.FlowbertWarning"),
    pytest.mark.filterwarnings("ignore:encoder .* ends in Normalize:flowbert.errors.FlowbertWarning"),
]


class Embeddings:
    """Embeddings of one encoder setting, each distinct sentence once, for all tests of the module."""

    def __init__(self, root: Path) -> None:
        self.senteval = root / "data" / "senteval"
        self._models = root / "models"
        self._rows: dict[tuple[str, str], dict[str, Tensor]] = {}
        self._encoders: dict[tuple[str, str], SentenceEncoder] = {}

    def __call__(self, name: str, layers: str, sentences: list[str]) -> Tensor:
        key = (name, layers)
        known = self._rows.setdefault(key, {})
        missing = sorted(set(sentences) - known.keys())
        if missing:
            if key not in self._encoders:
                self._encoders[key] = SentenceEncoder.from_pretrained(str(self._models / name), layers=layers)
            known.update(zip(missing, torch.from_numpy(self._encoders[key].encode(missing)), strict=True))
        return torch.stack([known[sentence] for sentence in sentences])

    def figures(self, name: str, layers: str, method: str, tasks: list[str]) -> dict[str, dict[str, float]]:
        """Figures x 100 by task and aggregation."""
        found = {}
        for task_name in tasks:
            task = load_task(task_name, self.senteval)
            calibration = make_calibration(method)
            if method != "raw":
                corpus = load_corpus("target", task=task_name, senteval=self.senteval)
                calibration.fit(self(name, layers, list(corpus.sentences)))
            pairs = embed_pairs(task, "test", lambda sentences: self(name, layers, list(sentences)))
            figures = evaluate_pairs(pairs, calibration.transform)
            found[task_name] = {kind: 100 * getattr(figures, kind) for kind in ("all", "mean", "wmean")}
        return found


@pytest.fixture(scope="module")
def embeddings() -> Embeddings:
    root = Path(os.environ.get("FLOWBERT_REAL", "")).resolve()
    if not os.environ.get("FLOWBERT_REAL") or not (root / "models").is_dir():
        pytest.skip("FLOWBERT_REAL does not name a folder with models/: no real data and encoders on this machine")
    return Embeddings(root)


@pytest.mark.alone
@pytest.mark.parametrize("key", EXPECTED, ids="-".join)
def test_quick_sts16(key: Key, embeddings: Embeddings) -> None:
    name, layers, method, aggregation = key
    found = embeddings.figures(name, layers, method, ["STS16"])["STS16"][aggregation]
    assert found == pytest.approx(EXPECTED[key][TASKS.index("STS16")], abs=TOLERANCE)


@pytest.mark.alone
def test_order_and_batches_change_no_figure(embeddings: Embeddings) -> None:
    task = load_task("STS16", embeddings.senteval)
    encoder = SentenceEncoder.from_pretrained(str(embeddings.senteval.parents[1] / "models" / "minilm-mlm"))
    pairs = [
        embed_pairs(task, "test", lambda sentences: embeddings("minilm-mlm", "last", list(sentences))),
        embed_pairs(task, "test", lambda sentences: encoder.encode(sentences[::-1], batch_tokens=700)[::-1].copy()),
    ]
    for method in ("raw", "whitening-128"):
        first, second = (evaluate_pairs(p, make_calibration(method).fit(p.embeddings).transform).wmean for p in pairs)
        assert first == pytest.approx(second, abs=1e-4)


@pytest.mark.alone
def test_dead_dimensions_are_reported(embeddings: Embeddings) -> None:
    sentences = load_task("STS16", embeddings.senteval).sentences()
    with pytest.warns(FlowbertWarning, match="N=2372 rows in D=384 dimensions has rank 381"):
        make_calibration("whitening").fit(embeddings("all-MiniLM-L6-v2", "last", sentences))


@pytest.mark.slow
@pytest.mark.parametrize("key", EXPECTED, ids="-".join)
def test_full_table(key: Key, embeddings: Embeddings) -> None:
    name, layers, method, aggregation = key
    tasks = list(TASKS[: len(EXPECTED[key])])
    found = embeddings.figures(name, layers, method, tasks)
    assert [found[task][aggregation] for task in tasks] == pytest.approx(EXPECTED[key], abs=TOLERANCE)
