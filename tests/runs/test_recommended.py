"""The recommended map: one definition in code and configs, and a row of its own beside a fit."""

from pathlib import Path

import pytest
import yaml

from flowbert import SentenceEncoder
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.modules import WhiteningModule
from flowbert.runs import recommended
from flowbert.runs.fit import fit

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("name", ["recommended", "recommended_whitening"])
def test_configs_say_the_same(name: str) -> None:
    content = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert content["encoder"]["layers"] == recommended.LAYERS
    assert content["encoder"]["pooling"] == recommended.POOLING
    assert f"whitening:shrinkage={content['whitening']['shrinkage']}" == recommended.METHOD


def test_it_is_a_row_beside_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path / "cache"))
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    data = EmbeddingDataModule(encoder, CorpusOptions(tasks="SAMPLE", max_sentences=900))
    rows = fit(WhiteningModule(encoder), data, tmp_path / "run", recommended=True, enable_progress_bar=False)
    settings = {(row.method, row.layers, row.pooling) for row in rows}
    assert (recommended.METHOD, recommended.LAYERS, f"{recommended.POOLING} of target") in settings
    assert ("whitening", "first_last", "mean") in settings
