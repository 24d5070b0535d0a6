"""Runs whose pages are looked at."""

from pathlib import Path
from typing import Any

import pytest

from flowbert import SentenceEncoder, compare, fit
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.modules import FlowModule


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two fits, the first with its page, and an evaluation with its page."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        for name, seed in (("first", 0), ("second", 1)):
            encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
            options = CorpusOptions(tasks="SAMPLE", max_sentences=900)
            patch.setenv("FLOWBERT_REPORT", str(1 - seed))  # one page is enough
            quick: dict[str, Any] = {"max_epochs": 1, "enable_progress_bar": False, "accelerator": "cpu"}
            data = EmbeddingDataModule(encoder, options, store="memory", held_out=0.1)
            fit(FlowModule(encoder=encoder, seed=seed), data, folder / name, **quick)
        patch.setenv("FLOWBERT_REPORT", "1")
        methods = "raw,standardization,whitening-64,whitening-32,nulling-2"
        compare(methods=methods, max_sentences=600, bootstrap=50, output=folder / "results.json")
    return {"first": folder / "first", "second": folder / "second", "results": folder / "results.json"}
