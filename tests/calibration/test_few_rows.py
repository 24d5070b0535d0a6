"""Too few sentences: distinct rows are counted in any chunks, a map of too few says its figures mean nothing."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.calibration import ZCA, Calibration, Moments, RemoveDirections, Standardization, Whitening
from flowbert.calibration import few_rows as few_rows_module
from flowbert.calibration.few_rows import ENOUGH, DistinctRows, few_rows
from flowbert.data.sts import STSTask, Subset
from flowbert.errors import FlowbertWarning
from flowbert.methods import Chain
from flowbert.tasks import STS, embed_pairs, evaluate_pairs

QUIET = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")


def rows(count: int, dim: int, copies: int = 1, seed: int = 0) -> Tensor:
    """Rows in general position, each several times, in random order."""
    generator = torch.Generator().manual_seed(seed)
    distinct = torch.randn(count, dim, generator=generator) * torch.linspace(1, 9, dim) + 5
    return distinct.repeat(copies, 1)[torch.randperm(count * copies, generator=generator)]


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 9, 16, 17, 18, 40, 82, 83, 200])
def test_distinct_rows_are_counted_in_any_chunks_and_merges(count: int, copies: int) -> None:
    x, dim = rows(count, 16, copies), 16
    expected = min(count, ENOUGH * dim + 2)
    whole = Moments(dim).update(x)
    assert whole.distinct == expected
    for size in (1, 7, 64):
        parts = [Moments(dim).update(part) for part in torch.split(x, size)]
        for order in (parts, parts[::-1]):
            merged = Moments(dim)
            for part in order:
                merged.merge(part)
            assert merged.distinct == expected
            assert torch.equal(merged.state_dict()["rows"], whole.state_dict()["rows"])
    loaded = Moments.from_state_dict(whole.state_dict())
    assert loaded.distinct == expected
    assert loaded.update(x).merge(whole).distinct == expected


def test_what_counts_as_equal() -> None:
    x = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0 + 1e-6]])
    assert Moments(2).update(x).distinct == 2
    assert Moments(2).update(x.double()).update(x).distinct == 2


def test_files_without_the_count_load_as_if_all_rows_were_distinct() -> None:
    state = Moments(4).update(rows(3, 4, copies=2)).state_dict()
    del state["rows"]
    assert Moments.from_state_dict(state).distinct == 6


def test_counting_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    hashes = few_rows_module._hashes

    def watched(block: Tensor) -> NDArray[np.int64]:
        hashed.append(len(block))
        return hashes(block)

    monkeypatch.setattr(few_rows_module, "_hashes", watched)
    x = torch.randn(20_000, 64, generator=torch.Generator().manual_seed(0))
    assert int(DistinctRows(64 * ENOUGH + 2).update(x)) == 64 * ENOUGH + 2
    assert sum(hashed) < 2000


def test_no_two_rows_share_a_hash() -> None:
    """Rows that differ in little: one value, one bit, the order, whole numbers."""
    dim = 16
    eye = torch.cat([torch.eye(dim) * scale for scale in (1, 2, 4, 0.5, -1, 2**20)])
    shuffled = torch.stack([torch.arange(dim).float().roll(n) for n in range(dim)])
    near = torch.nextafter(torch.ones(dim, dim), torch.ones(dim, dim) + torch.eye(dim))
    grid = torch.cartesian_prod(*[torch.arange(5).float()] * 4).repeat(1, 4)
    x = torch.cat([eye, shuffled, near, grid])
    assert int(DistinctRows(10**9).update(x)) == len(torch.unique(x, dim=0))


# A map, and the most sentences at which it has a flaw; D is 16.
MAPS: dict[str, tuple[Callable[[], Calibration], int]] = {
    "whitening": (Whitening, 17),
    "whitening-4": (lambda: Whitening(4), 5),
    "zca": (ZCA, 17),
    "shrunk": (lambda: Whitening(shrinkage=0.1), 0),
    "shrunk zca": (lambda: ZCA(shrinkage=0.1), 0),
    "shrunk by nothing": (lambda: Whitening(shrinkage=1e-13), 17),
    "softened": (lambda: Whitening(exponent=-0.35), 0),
    "ledoit-wolf": (lambda: Whitening(shrinkage="ledoit-wolf"), 2),
    "nulling": (lambda: RemoveDirections(3), 4),
    "standardization": (Standardization, 0),
}


@QUIET
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 12, 16, 17, 18, 60])
@pytest.mark.parametrize("name", MAPS)
def test_a_map_of_too_few_sentences_says_so(name: str, count: int, copies: int, tmp_path: Path) -> None:
    make, most = MAPS[name]
    x = rows(count, 16, copies)
    fitted = make().fit(x)
    merged = make().partial_fit(x[: len(x) // 2]).merge(make().partial_fit(x[len(x) // 2 :]))
    loaded = Calibration.load(fitted.save(tmp_path / "c.safetensors"))
    chained = Chain([Standardization(), make()]).fit(x)
    assert fitted.flaw == merged.flaw == loaded.flaw == chained.flaw
    assert (fitted.flaw is not None) == (count <= most), fitted.flaw
    assert make().flaw is None
    if fitted.flaw is None:
        return
    assert f"N={count} distinct sentences in D=16 dimensions" in fitted.flaw
    enough = int(re.findall(r"(\d+) distinct sentences$", fitted.flaw)[0]) + ("more than" in fitted.flaw)
    assert make().fit(rows(enough, 16)).flaw is None  # the remedy is one
    assert "\n" not in fitted.flaw
    y = fitted.transform(torch.unique(x, dim=0)).double()
    if name == "nulling":
        assert y.norm() < 1e-5 * x.norm()
    else:  # the flaw itself: every two sentences equally similar
        unit = y / y.norm(dim=1, keepdim=True)
        cosines = (unit @ unit.T)[~torch.eye(len(y), dtype=torch.bool)]
        np.testing.assert_allclose(cosines, -1 / (count - 1), atol=1e-5)


@QUIET
def test_a_flawed_map_has_no_figures_but_a_reason() -> None:
    sentences = [f"sentence {number}" for number in range(24)]
    vectors = dict(zip(sentences, rows(24, 16), strict=True))
    halves = [
        Subset(str(n), tuple(sentences[n : n + 6]), tuple(sentences[n + 12 : n + 18]), np.arange(6.0)) for n in (0, 6)
    ]
    task = STSTask("T", {"test": halves})
    pairs = embed_pairs(task, "test", lambda texts: torch.stack([vectors[text] for text in texts]))
    whitening = Whitening().fit(rows(10, 16))
    figures = evaluate_pairs(pairs, whitening.transform, positive_above=3, flaw=whitening.flaw)
    whole = evaluate_pairs(pairs, positive_above=3)
    assert figures.reason == whitening.flaw
    assert whole.reason == ""
    for name in ("all", "mean", "wmean", "alignment", "uniformity", "mean_cosine"):
        assert math.isnan(getattr(figures, name))
    for name in ("pairs", "positives", "sentences", "uniformity_sentences"):
        assert getattr(figures, name) == getattr(whole, name)
    measured = STS(task).measure(pairs, whitening.transform, whitening.flaw)
    assert {figure.reason for figure in measured.figures} == {whitening.flaw}
    assert np.isnan(measured.items).all()


def test_advice_below_a_stated_number() -> None:
    with pytest.warns(FlowbertWarning, match=rf"N=30 distinct sentences for 8 directions .* below {ENOUGH} for each"):
        Whitening().fit(rows(30, 8, copies=2))
    with pytest.warns(FlowbertWarning, match="zca: N=30 distinct"):
        ZCA().fit(rows(30, 8))
    Whitening().fit(rows(8 * ENOUGH, 8))
    Whitening(shrinkage=0.1).fit(rows(30, 8))
    Whitening(4).fit(rows(30, 8))
    with pytest.warns(FlowbertWarning, match="N=19 distinct sentences for 4 directions"):
        Whitening(4).fit(rows(19, 8))
    dead = rows(30, 8)
    dead[:, 3] = 0
    with pytest.warns(FlowbertWarning, match="N=30 distinct sentences for 7 directions"):
        Whitening(7).fit(dead)


def test_few_rows_of_a_flow() -> None:
    assert few_rows(9, 8) is None
    assert few_rows(8, 8) == (
        "a flow of N=8 distinct sentences in D=8 dimensions has no maximal likelihood; needed: noise, more than 8 "
        "distinct sentences, or fewer dimensions before it (whitening-K+flow)"
    )
    assert few_rows(2, 8, noise=0.05) is None
    for noise in (0.0, 0.05):
        assert str(few_rows(1, 8, noise)).endswith("needed: at least 2 distinct sentences")
