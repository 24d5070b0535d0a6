"""A fit in which nothing is trained: the whitening alone, saved like every map."""

from pathlib import Path

import numpy as np
import torch

from flowbert import SentenceEncoder, Whitening, encode
from flowbert.callbacks import WhiteningBaseline
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.modules import WhiteningModule
from flowbert.runs.fit import fit

SENTENCES = ["a dog runs in the park", "the cat"]


def test_the_map_is_that_of_the_whole_corpus(tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last")
    data = EmbeddingDataModule(encoder, CorpusOptions(tasks="SAMPLE", max_sentences=900), held_out=0.0)
    whitening = WhiteningBaseline(shrinkage=0.3)
    rows = fit(WhiteningModule(encoder), data, tmp_path / "run", whitening=whitening, enable_progress_bar=False)
    assert {row.method for row in rows} == {"raw", "whitening"}
    assert {row.fitted for row in rows if row.method == "whitening"} == {900}
    assert not (tmp_path / "run" / "checkpoints").exists()

    expected = Whitening(shrinkage=0.3).fit(encoder.encode(data.examples.columns[0]))
    found = encode(SENTENCES, model=tmp_path / "run")  # the only map there is
    mapped = expected.transform(torch.from_numpy(encoder.encode(SENTENCES))).numpy()
    np.testing.assert_allclose(np.abs(found), np.abs(mapped), atol=1e-4)  # directions have no sign
