"""Token weights through whole runs: fit, encode, evaluate and test speak of the same vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowbert import SentenceEncoder, compare, encode
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.evaluation.results import Row
from flowbert.modules import FlowModule, SimCSEModule
from flowbert.runs.fit import fit

SENTENCES = ["a dog runs in the park", "the cat"]
QUICK: dict[str, Any] = {"max_epochs": 1, "limit_train_batches": 2, "enable_progress_bar": False, "accelerator": "cpu"}


def figures(rows: Sequence[Row], method: str) -> dict[str, float]:
    return {row.aggregation: row.value for row in rows if row.method == method and row.metric == "spearman"}


def test_fit_evaluate_and_encode_agree(tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last", pooling="idf")
    data = EmbeddingDataModule(encoder, CorpusOptions(tasks="SAMPLE", max_sentences=900), held_out=0.1)
    fitted = fit(FlowModule(encoder=encoder), data, tmp_path / "run", **QUICK)
    assert {row.pooling for row in fitted} == {"idf of target"}

    found = compare(EncoderSettings(layers="first_last", pooling="idf"), "raw", max_sentences=900, bootstrap=0)
    assert figures(found.rows, "raw") == pytest.approx(figures(fitted, "raw"))
    assert {row.pooling for row in found.rows} == {"idf of target"}

    saved = EncoderSettings(layers="first_last", pooling="idf", counts=str(tmp_path / "run"))
    again = compare(saved, "raw,flow", flow=str(tmp_path / "run"), max_sentences=900, bootstrap=0)
    for method in ("raw", "flow"):
        assert figures(again.rows, method) == pytest.approx(figures(fitted, method)), method

    other = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last", pooling="idf")
    other.use_counts(other.count_tokens(data.examples.columns[0]))
    assert np.array_equal(encode(SENTENCES, model=tmp_path / "run", method="raw"), other.encode(SENTENCES))


def test_checkpoints_hold_the_counts(tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last", pooling="sif:a=0.01")
    data = EmbeddingDataModule(encoder, CorpusOptions(tasks="SAMPLE", max_sentences=900))
    fit(FlowModule(encoder=encoder), data, tmp_path / "run", **QUICK)
    loaded = FlowModule.load_from_checkpoint(tmp_path / "run" / "checkpoints" / "last.ckpt")
    assert loaded.encoder.key() == encoder.key()
    assert np.array_equal(loaded.encoder.encode(SENTENCES), encoder.encode(SENTENCES))


def test_a_trained_encoder_keeps_its_weights(tmp_path: Path) -> None:
    from flowbert.datamodules.contrastive import ContrastiveDataModule

    encoder = SentenceEncoder.from_pretrained("builtin-sample", pooling="idf", frozen=False)
    data = ContrastiveDataModule(encoder, CorpusOptions("builtin-sample", tasks="SAMPLE", max_sentences=64))
    fit(SimCSEModule(encoder, head="none"), data, tmp_path / "run", **QUICK)
    trained = SentenceEncoder.from_pretrained(str(tmp_path / "run"))
    assert trained.pooling == "idf"
    assert not trained.needs_counts
    again = compare(EncoderSettings(str(tmp_path / "run")), "raw", max_sentences=900, bootstrap=0)
    assert {row.pooling for row in again.rows} == {"idf of builtin-sample"}


def test_several_poolings_cost_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path / "cache"))
    encoded: list[str] = []
    encode_sentences = SentenceEncoder.encode

    def counting(self: SentenceEncoder, sentences: list[str], **options: object) -> object:
        encoded.extend(sentences)
        return encode_sentences(self, sentences, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(SentenceEncoder, "encode", counting)
    found = compare(
        EncoderSettings(layers="first_last", pooling="mean,idf,weighted_mean"), "raw,whitening", bootstrap=0
    )
    assert {row.pooling for row in found.rows} == {"mean", "idf of target", "weighted_mean of target"}
    assert len(encoded) == len(set(encoded)) > 900


def test_each_corpus_has_counts_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("a dog\nthe dog\na bird\n" * 60)
    corpora = ["target", str(tmp_path / "own.txt")]
    settings = EncoderSettings(layers="first_last", pooling="idf")
    found = compare(settings, "raw,whitening:shrinkage=0.5", corpus=corpora, bootstrap=0)
    of = {(row.method, row.pooling): row.value for row in found.rows if row.aggregation == "wmean"}
    assert len(of) == 4
    assert len(set(of.values())) == 4
    run = compare(EncoderSettings(layers="first_last", pooling="idf", counts="run"), "raw", corpus=corpora, bootstrap=0)
    assert {row.pooling for row in run.rows} == {"idf of run"}
    assert len({row.aggregation for row in run.rows}) == len(run.rows)
