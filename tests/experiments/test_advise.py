"""Advice from sentences alone: its criterion, its choice, its commands."""

import json
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from flowbert.analysis import cls_token
from flowbert.analysis.cls_token import cls_is_informative, warn_of_cls
from flowbert.analysis.criterion import (
    cosine_statistics,
    criterion,
    discriminability,
    make_views,
    resample_weights,
)
from flowbert.cli import main
from flowbert.data.sample import sample_corpus
from flowbert.encoders import EncoderOptions, SentenceEncoder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.experiments.advise import (
    ADVISED_LAYERS,
    ADVISED_MAPS,
    advise,
    rank_candidates,
)
from flowbert.vectors import EmbeddingCache

SENTENCES = list(dict.fromkeys(sample_corpus()))[:200]


def vectors(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(40, 6, generator=generator, dtype=torch.float64)


def test_statistics_are_those_of_the_matrix_of_cosines() -> None:
    x, y = vectors(0), vectors(0) + 0.3 * vectors(1)
    cosines = torch.cosine_similarity(x[:, None], y[None], dim=2).numpy()
    own, others = cosines.diagonal(), cosines[~np.eye(40, dtype=bool)].reshape(40, 39)
    square = own**2 + others.var(axis=1)
    expected = np.array([own, own - others.mean(axis=1), square])
    # Sums of 40 terms of size 1 in float64.
    statistics = cosine_statistics(x, y)
    np.testing.assert_allclose(statistics, expected, atol=1e-13)
    inside = (own.var() + others.var(axis=1).mean()) / 2
    distance = (own.mean() - others.mean()) / np.sqrt(inside)
    weights = resample_weights(40, resamples=3)
    assert weights.sum(axis=0) == pytest.approx(np.ones(4))
    assert discriminability(statistics, weights)[0] == pytest.approx(distance)


def test_nearer_views_are_distinguished_better_and_far_ones_do_not_count() -> None:
    x, noise, weights = vectors(0), vectors(1), resample_weights(40, resamples=0)
    kinds = [cosine_statistics(x, x + share * noise) for share in (0.1, 0.5, 1.0, 3.0)]
    distances = [float(discriminability(kind, weights)[0]) for kind in kinds]
    assert distances == sorted(distances, reverse=True)
    both = criterion(kinds[0], kinds[0], weights)
    assert both[0] == pytest.approx(2**0.5 * distances[0])
    opposite = cosine_statistics(x, -x)
    assert criterion(kinds[0], opposite, weights)[0] == pytest.approx(distances[0])


def test_views_lack_two_words_of_five() -> None:
    sentences = ["one two three four five", "a b c d"]
    for sentence, view in zip(sentences, make_views(sentences, seed=1), strict=True):
        words = iter(sentence.split())
        assert all(word in words for word in view.split()), "in their order"
        assert len(view.split()) == round(0.6 * len(sentence.split()))
    assert make_views(sentences, seed=1) == make_views(sentences, seed=1)


@pytest.mark.parametrize(
    ("raw", "order", "tied"),
    [
        # Below 99% of the best, and outside of its interval.
        (1.90, [1, 2, 0, 3], [False, False, False, False]),
        # Below, but inside: the same map on other layers is not tied with itself.
        (1.97, [1, 2, 0, 3], [False, False, True, False]),
        # Raw vectors within 1% come first; everything inside is tied with them.
        (1.99, [0, 1, 2, 3], [False, True, True, False]),
    ],
)
def test_ranks(raw: float, order: list[int], tied: list[bool]) -> None:
    settings = [("last", "raw"), ("last", "zca"), ("first_last", "zca"), ("x", "raw")]
    # The difference of two settings varies between resamples by 0.05, up and down.
    noise = np.array([0.0, *[0.05, -0.05] * 50])
    values = np.array([[raw], [2.0], [1.98], [1.0]]) + noise * [[1], [0], [0], [1]]
    ranked = rank_candidates(settings, values)
    rows = ranked[["layers", "method"]].itertuples(index=False, name=None)
    assert [settings.index(row) for row in rows] == order
    assert ranked["tied"].tolist() == tied
    assert (ranked["low"] <= ranked["criterion"]).all()


def test_the_best_setting_first_and_the_same_again(corpus: str) -> None:
    advice, again, other = (advise(corpus, limit=300, seed=seed) for seed in (0, 0, 1))
    candidates = advice.candidates
    settings = set(zip(candidates["layers"], candidates["method"], strict=True))
    assert settings == {
        (layers, name) for layers in ADVISED_LAYERS for name in ADVISED_MAPS
    }
    assert candidates["criterion"][1:].is_monotonic_decreasing
    assert candidates["method"][0] == advice.method
    assert (advice.layers, advice.pooling) == ("embedding_last", "zipf")
    pd.testing.assert_frame_equal(candidates, again.candidates)
    assert str(advice) == str(again)
    assert not candidates.equals(other.candidates)


def run_commands(text: str) -> list[str]:
    """Run the commands of a text; their names."""
    lines = [line for line in text.splitlines() if line.startswith("    flowbert ")]
    for line in lines:
        main([*shlex.split(line)[1:], "--quiet"])
    return [line.split()[1] for line in lines]


@pytest.mark.parametrize("raw", [True, False])
def test_its_commands_run(
    raw: bool,
    corpus: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOWBERT_REPORT", "0")
    Path("PAIRS.csv").write_text(
        "sentence1,sentence2,score\na dog,a cat,1\na cat,two cats,4\nyes,no,0\n"
    )
    own: dict[str, Any] = {"max_length": 40, "prompt": "it says: "}
    with monkeypatch.context() as patch:
        patch.setattr(cls_token, "CLS_SHARE", 0.05)
        if raw:
            patch.setattr("flowbert.experiments.advise.ADVISED_MAPS", ("raw",))
        advice = advise(corpus, EncoderOptions(**own), limit=100)
    assert advice.pooling == ("mean" if raw else "zipf:cls=16")
    commands = run_commands(advice.text)
    assert commands == (["encode"] if raw else ["fit", "compare"])
    # The sample's encoder never trained its [CLS].
    assert ("weighs [CLS]" in capsys.readouterr().err) == (not raw)
    if raw:
        encoder = SentenceEncoder(layers=advice.layers, **own)
        first = Path(corpus).read_text().splitlines()[0]
        assert np.array_equal(np.load("vectors.npy")[:1], encoder.encode([first]))
    else:
        (file,) = Path("runs").rglob("encoder.json")
        assert '"it says: "' in file.read_text()


@pytest.mark.parametrize(
    ("name", "corpus", "column", "flags"),
    [
        ("my file.txt", "my file.txt", None, ["--corpus=my file.txt"]),
        ("t.csv", "t.csv", "text", ["--corpus=t.csv", "--column=text"]),
        ("n.jsonl", "nli", None, ["--corpus=nli", "--nli=n.jsonl"]),
    ],
)
def test_commands_have_the_options_that_were_given_and_no_others(
    name: str,
    corpus: str,
    column: str | None,
    flags: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [json.dumps({"premise": x, "hypothesis": x, "label": 0}) for x in SENTENCES]
    quoted = [f'"{text}"' for text in SENTENCES]
    lines = {".csv": ["text", *quoted], ".jsonl": pairs}.get(
        Path(name).suffix, SENTENCES
    )
    Path(name).write_text("\n".join(lines))
    nli = name if corpus == "nli" else "hub"
    text = advise(corpus, nli=nli, column=column, limit=60).text
    fit = next(line for line in text.splitlines() if "flowbert fit" in line)
    encoder = ("builtin-sample", "embedding_last", "zipf")
    names = ("path", "layers", "pooling")
    own = [
        f"--encoder.{key}={value}" for key, value in zip(names, encoder, strict=True)
    ]
    assert shlex.split(fit)[4:] == own + flags


@pytest.mark.filterwarnings("ignore:encoder. .* was trained with pooling 'cls'")
def test_a_model_with_another_pooling_than_the_mean_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SentenceEncoder(pooling="cls").save(tmp_path / "cls")
    encoder = str(tmp_path / "cls")
    advice = advise(encoder=encoder, limit=60)
    assert (advice.layers, advice.pooling) == ("embedding_last", "zipf")
    assert "--encoder.layers=last --encoder.pooling=cls)" in advice.text
    monkeypatch.setattr("flowbert.experiments.advise.ADVISED_MAPS", ("raw",))
    advice = advise(encoder=encoder, limit=60)
    assert (advice.layers, advice.pooling, advice.method) == ("last", "cls", "raw")


@pytest.mark.parametrize(
    ("name", "informative"),
    [("minilm-mlm", True), ("bert-mini-mlm", False)],
)
def test_cls_of_real_encoders(name: str, informative: bool, real: Path) -> None:
    captions = real / "data" / "corpora" / "captions.txt"
    sentences = captions.read_text(encoding="utf-8").splitlines()[:200]
    encoder = SentenceEncoder(real / "models" / name)
    cache, views = EmbeddingCache(False), make_views(sentences)
    assert cls_is_informative(encoder, sentences, views, cache) == informative


@pytest.mark.parametrize(
    ("pooling", "sentences", "warns"),
    [("zipf:cls=16", 200, True), ("zipf:cls=16", 49, False), ("zipf", 200, False)],
)
def test_a_weight_of_an_uninformative_cls_is_warned_of(
    pooling: str, sentences: int, warns: bool
) -> None:
    encoder = SentenceEncoder(layers="embedding_last", pooling=pooling)
    message = r"zipf:cls=16, which weighs \[CLS\]"
    with pytest.warns(FlowbertWarning, match=message) if warns else nullcontext():
        warn_of_cls(encoder, SENTENCES[:sentences], EmbeddingCache(False))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 49}, "limit: received 49"),
        ({"corpus": "missing.txt"}, "missing.txt"),
        ({"corpus": "few.txt"}, "corpus: received 1 distinct"),
        ({"encoder": EncoderOptions(pooling="cls")}, "pooling: received 'cls'"),
        ({"encoder": EncoderOptions(layers="last")}, "layers: received 'last'"),
        ({"encoder": "missing"}, "encoder: received 'missing'"),
        ({"encoder": "words.txt"}, "encoder: received words.txt"),
    ],
)
def test_mistakes(
    options: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Path("few.txt").write_text("a word\n" * 60 + "a dog runs home\n")
    Path("words.txt").write_text("dog 1.0 2.0\n")
    with pytest.raises(UserError, match=message):
        advise(**options)
