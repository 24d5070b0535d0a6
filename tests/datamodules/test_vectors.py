"""A fit on vectors from elsewhere: one pass for a closed form, the same rows for every format, nothing encoded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flowbert import Whitening, fit
from flowbert.datamodules.vectors import VectorDataModule
from flowbert.errors import UserError
from flowbert.flows import load_flow
from flowbert.modules import FlowModule, WhiteningModule
from flowbert.vectors import VectorTable, write_vectors
from flowbert.vectors.matrix import Floats, MappedMatrix

X = (np.random.default_rng(0).standard_normal((1200, 8)) * np.arange(1, 9)).astype(np.float32)
QUICK: dict[str, Any] = {"enable_progress_bar": False, "accelerator": "cpu"}


class Watched(MappedMatrix):
    """Counts how often each row is read."""

    def __init__(self, x: Floats) -> None:
        super().__init__(lambda: x)
        self.read = np.zeros(len(x), dtype=int)

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        for start, block in super().blocks():
            self.read[start : start + len(block)] += 1
            yield start, block

    def take(self, rows: np.ndarray) -> Floats:
        np.add.at(self.read, rows, 1)
        return super().take(rows)


def test_a_closed_form_is_one_pass_over_the_vectors(tmp_path: Path) -> None:
    matrix = Watched(X)
    table = VectorTable(matrix, "watched")
    rows = fit(WhiteningModule(table), VectorDataModule(table, held_out=0.1), tmp_path, **QUICK)
    assert rows == []
    # One row, the first, stands for a test in which nothing is measured.
    assert matrix.read[1:].max() == matrix.read[1:].min() == 1
    assert matrix.read[0] <= 2
    fitted = Whitening.load(tmp_path / "model" / "whitening.safetensors")
    assert fitted.moments is not None
    assert fitted.moments.count == 1080
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        *("encoder.json", "raw.int8", "whitening.int8", "whitening.safetensors")
    ]


def test_the_map_is_that_of_the_rows_fitted_on() -> None:
    data = VectorDataModule(X, held_out=0.1, max_sentences=900, seed=3)
    data.load()
    chosen = torch.cat(list(data.corpus_chunks()))
    assert len(chosen) == data.corpus_rows == data.fitted_examples == 810
    rows = {row.tobytes() for row in chosen.numpy()}
    assert len(rows) == 810
    assert rows <= {row.tobytes() for row in X}
    assert not rows & {X[row].tobytes() for row in data._held_index}
    other = VectorDataModule(X, held_out=0.1, max_sentences=900, seed=4)
    other.load()
    assert other.describe_corpus() != data.describe_corpus()


def test_a_flow_is_the_same_from_every_format(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2,score\n0,1,5\n5,9,1\n7,3,0\n1199,0,4\n")
    digests = set()
    for suffix in (".npy", ".parquet"):
        write_vectors(tmp_path / f"x{suffix}", [X[:700], X[700:]], X.shape, "float32")
        table = VectorTable.open(tmp_path / f"x{suffix}")
        module = FlowModule(encoder=table, levels=1, depth=1, width=4)
        data = VectorDataModule(table, str(tmp_path / "pairs.csv"))
        rows = fit(module, data, tmp_path / suffix, max_epochs=1, **QUICK)
        assert {row.method for row in rows} == {"raw", "whitening", "flow"}
        assert {(row.encoder, row.layers, row.pooling) for row in rows} == {(table.name, "none", "none")}
        flow, _ = load_flow(tmp_path / suffix / "model" / "flow.safetensors")
        digests.add(flow.latents(torch.from_numpy(X[:50])).numpy().tobytes())
    assert len(digests) == 1


def test_a_checkpoint_finds_its_vectors_and_goes_on_with_them_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X + 1)
    np.save(tmp_path / "z.npy", X[:, :4])
    table = VectorTable.open(tmp_path / "x.npy")
    module = FlowModule(encoder=table, levels=1, depth=1, width=4)
    fit(module, VectorDataModule(table), tmp_path / "run", max_epochs=1, **QUICK)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    loaded = FlowModule.load_from_checkpoint(last, weights_only=True)
    assert loaded.encoder.key() == table.key()
    other = VectorTable.open(tmp_path / "y.npy")
    again = FlowModule(encoder=other, levels=1, depth=1, width=4)
    with pytest.raises(UserError, match=r"the checkpoint was fitted on 1176 of .*x\.npy, this run on 1176 of .*y\.npy"):
        fit(again, VectorDataModule(other), tmp_path / "again", ckpt_path=last, max_epochs=2, **QUICK)
    content = torch.load(last, weights_only=True)
    narrow = FlowModule(encoder=VectorTable.open(tmp_path / "z.npy"), levels=1, depth=1, width=4)
    with pytest.raises(UserError, match=r"was fitted on vectors of size 8 from .*; received vectors of size 4"):
        narrow.on_load_checkpoint(content)


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="vectors: array has 1 rows to fit on; allowed: at least 2"):
        VectorDataModule(X[:1]).load()
    with pytest.raises(UserError, match="tasks: received 'SAMPLE', which has sentences"):
        VectorDataModule(X, "SAMPLE").load()
    for wrong in ("1200", "-1", "1.5", "a dog", "", "true"):
        (tmp_path / "pairs.csv").write_text(f"sentence1,sentence2,score\n0,1,1\n2,{wrong},3\n")
        with pytest.raises(
            UserError, match=r"pairs.csv:3: column 'sentence2' holds .*; allowed: a row number .* 0 to 1199"
        ):
            VectorDataModule(X, str(tmp_path / "pairs.csv")).load()
    (tmp_path / "pairs.jsonl").write_text(
        '{"sentence1": 0, "sentence2": 1, "score": 1}\n{"sentence1": true, "sentence2": 1, "score": 2}\n'
    )
    with pytest.raises(UserError, match=r"pairs.jsonl:2: column 'sentence1' holds True \(bool\)"):
        VectorDataModule(X, str(tmp_path / "pairs.jsonl")).load()
