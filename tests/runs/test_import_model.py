"""Others' maps as a run folder: encode, export and evaluate take it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.bertflow import latents, random_state
from helpers.encoders import make_encoder

from flowbert import SentenceEncoder, Whitening, compare, import_model, load
from flowbert.cli import main
from flowbert.data.corpus import load_corpus
from flowbert.errors import UserError
from flowbert.evaluation.results import load_results
from flowbert.io.run_folder import RunFolder

SENTENCES = ["a cat runs", "the dog sleeps", "été"]


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return make_encoder(tmp_path / "encoder")


@pytest.fixture
def whitening(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    np.savez(tmp_path / "w.npz", kernel=random.normal(size=(16, 5)), bias=random.normal(size=(1, 16)))
    return tmp_path / "w.npz"


def test_a_whitening(encoder: Path, whitening: Path, tmp_path: Path) -> None:
    run, output = tmp_path / "run", tmp_path / "v.npy"
    options = ["--encoder.path", str(encoder), "--encoder.layers", "first_last", "--encoder.pooling", "mean"]
    main(["import", "--from", str(whitening), *options, "--run_dir", str(run)])
    main(["encode", "--model", str(run), "--sentences", json.dumps(SENTENCES), "--output", str(output)])
    raw = SentenceEncoder.from_pretrained(str(encoder), layers="first_last").encode(SENTENCES)
    with np.load(whitening) as content:
        expected = (raw + content["bias"]) @ content["kernel"]
    np.testing.assert_allclose(np.load(output), expected, rtol=1e-4, atol=1e-4)


def test_a_whitening_of_layers_that_were_added(encoder: Path, tmp_path: Path) -> None:
    settings = {"path": str(encoder), "layers": "first_last", "pooling": "mean"}
    raw = SentenceEncoder.from_pretrained(str(encoder), layers="first_last").encode(SENTENCES)
    random = np.random.default_rng(0)
    kernel, bias = random.normal(size=(16, 5)), random.normal(size=(1, 16))
    np.savez(tmp_path / "w.npz", kernel=kernel, bias=bias)
    made = load(import_model(tmp_path / "w.npz", settings, tmp_path / "run", scale=2))
    np.testing.assert_allclose(made.encode(SENTENCES), (2 * raw + bias) @ kernel, rtol=1e-4, atol=1e-4)
    for source, scale in (("w.npz", 0), ("glow.bin", 2)):
        with pytest.raises(UserError, match=f"scale: received {scale}; allowed: above 0 for kernel and bias, 1 for a"):
            import_model(tmp_path / source, settings, tmp_path / "other", scale=scale)


@pytest.mark.parametrize(
    ("pooling", "layers", "here"), [("first-last-avg", (0, 3), "mean"), ("cls", (3,), "cls"), (None, None, None)]
)
def test_a_flow_and_what_its_folder_says_of_layers(
    encoder: Path, tmp_path: Path, pooling: str | None, layers: tuple[int, ...] | None, here: str | None
) -> None:
    theirs, state = tmp_path / "theirs", random_state(16, 2, 3, 8)
    theirs.mkdir()
    torch.save(state, theirs / "glow.bin")
    settings = {"path": str(encoder)}
    if pooling is None:
        with pytest.raises(UserError, match=r"layers: received none, and .* does not say; needed: what the map was"):
            import_model(theirs, settings, tmp_path / "run")
        with pytest.raises(UserError, match=r"pooling: received none"):
            import_model(theirs, {**settings, "layers": "last"}, tmp_path / "run")
        return
    (theirs / "config.json").write_text(json.dumps({"pooling": pooling}))
    for source in (theirs, theirs / "glow.bin"):
        embedder = load(import_model(source, settings, tmp_path / f"run-{source.name}"))
        assert (embedder.encoder.layers, embedder.encoder.pooling) == (layers, here)
        raw = torch.from_numpy(embedder.encoder.encode(SENTENCES))
        np.testing.assert_allclose(embedder.encode(SENTENCES), latents(state, raw), rtol=1e-4, atol=1e-4)


def test_an_imported_flow_is_compared(tmp_path: Path) -> None:
    torch.save(random_state(128, 2, 1, 4), tmp_path / "glow.bin")
    options = ["--encoder.layers", "first_last", "--encoder.pooling", "mean"]
    main(["import", "--from", str(tmp_path / "glow.bin"), *options, "--run_dir", str(tmp_path / "run")])
    more = ["--methods", "raw,flow", "--flow", str(tmp_path / "run"), "--bootstrap", "0"]
    main(["evaluate", *options, *more, "--output", str(tmp_path / "r.json")])
    found = {row["method"] for row in json.loads((tmp_path / "r.json").read_text())["rows"]}
    assert found == {"raw", "flow"}


def test_an_imported_whitening_stands_beside_ours_on_the_same_embeddings(tmp_path: Path) -> None:
    """The map of our own whitening, as kernel and bias: the same figures, and no difference on any resample."""
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last", pooling="mean")
    corpus = load_corpus("target", task="SAMPLE").sample(2000, seed=0).sentences
    ours = Whitening(n_components=32).fit(encoder.encode(corpus))
    weight, bias = ours.affine()
    np.savez(tmp_path / "w.npz", kernel=weight, bias=bias @ torch.linalg.pinv(weight))
    options = ["--encoder.layers", "first_last", "--encoder.pooling", "mean"]
    main(["import", "--from", str(tmp_path / "w.npz"), *options, "--run_dir", str(tmp_path / "run")])
    more = ["--methods", "raw,whitening-32,given", "--given", str(tmp_path / "run"), "--bootstrap", "50"]
    main(["evaluate", *options, *more, "--max_sentences", "2000", "--output", str(tmp_path / "r.json")])
    rows, _ = load_results(tmp_path / "r.json")
    by_method = {row.method: row for row in rows if row.aggregation == "wmean"}
    mine, theirs = by_method["whitening-32"], by_method["given"]
    for name in ("value", "low", "high", "alignment", "uniformity"):
        assert getattr(theirs, name) == pytest.approx(getattr(mine, name), abs=1e-5)
    assert abs(theirs.value - by_method["raw"].value) > 0.01
    assert (mine.corpus, theirs.corpus) == ("target", f"that of {tmp_path / 'run'}")


def test_the_whitening_of_a_fit_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    options = ["--encoder.layers", "first_last", "--encoder.pooling", "mean"]
    fit = ["--method", "whitening", "--whitening.shrinkage", "0.5", "--max_sentences", "900", "--run_dir", str(run)]
    main(["fit", *options, *fit])
    evaluate = ["evaluate", "--methods", "raw,given", "--given", str(run), "--bootstrap", "0"]
    main([*evaluate, *options, "--output", str(tmp_path / "r.json")])
    fitted = {row.method: row.value for row in load_results(run / "results.json")[0] if row.aggregation == "all"}
    found = {row.method: row.value for row in load_results(tmp_path / "r.json")[0] if row.aggregation == "all"}
    assert found == pytest.approx({"raw": fitted["raw"], "given": fitted["whitening"]}, abs=1e-6)
    (tmp_path / "own.txt").write_text("\n".join(load_corpus("builtin-sample").sentences[:400]))
    main(["analyze", *options, "--methods", "raw,given", "--given", str(run), "--corpus", str(tmp_path / "own.txt")])
    assert "given" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*evaluate, "--encoder.layers", "last", "--output", str(tmp_path / "other.json")])
    told = capsys.readouterr().err.strip()
    assert f"whitening in {run} belongs to another encoder (layers: [1, 4] there, [4] here)" in told
    assert "\n" not in told
    assert not (tmp_path / "other.json").exists()


def test_a_given_map_that_there_is_not(encoder: Path, whitening: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "emb.npy", np.random.default_rng(0).normal(size=(9, 12)).astype(np.float32))
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2,score\n0,1,3\n2,3,1\n4,5,2\n")
    torch.save(random_state(16, 2, 1, 4), tmp_path / "glow.bin")
    settings = {"path": str(encoder), "layers": "last", "pooling": "mean"}
    flow = import_model(tmp_path / "glow.bin", settings, tmp_path / "flow")
    run = import_model(whitening, settings, tmp_path / "run")
    on_vectors = {"vectors": str(tmp_path / "emb.npy"), "tasks": str(tmp_path / "pairs.csv")}
    for options, message in (
        ({"methods": "given"}, "given: received none; allowed with method given: a run folder of `fit` or `import`"),
        ({"methods": "given", "given": str(flow)}, r"given: .*flow holds no calibration; allowed: a run folder with"),
        ({"methods": "given", "given": "no/such/folder"}, "no/such/folder: no such folder"),
        (
            {"methods": "raw", "given": str(run)},
            "given: received .*run; allowed with methods raw: none, or given among",
        ),
        (
            {"methods": "whitening+given", "given": str(run)},
            "method: received 'given' in a composition; allowed: given alone",
        ),
        (
            {"methods": "given", "given": str(run), **on_vectors},
            r"the whitening in .*run maps vectors of size 16; received vectors of size 12; allowed: 16",
        ),
    ):
        with pytest.raises(UserError, match=message):
            compare(**options)  # type: ignore[arg-type]


def test_mistakes_are_one_line_and_write_nothing(encoder: Path, whitening: Path, tmp_path: Path) -> None:
    settings = {"path": str(encoder), "layers": "last", "pooling": "mean"}
    np.savez(tmp_path / "wide.npz", kernel=np.eye(20), bias=np.zeros(20))
    run = tmp_path / "run"
    for source, options, message in (
        (tmp_path / "wide.npz", settings, r"wide\.npz: a map of vectors of size 20; allowed with encoder .*: 16"),
        (whitening, {**settings, "pooling": "idf"}, "pooling: received idf, which needs token counts"),
        (tmp_path / "none.npz", settings, "No such file"),
    ):
        with pytest.raises(UserError, match=message):
            import_model(source, options, run)
    assert not run.exists()
    import_model(whitening, settings, run)
    with pytest.raises(UserError, match=r"run_dir: .* holds a model; allowed: another"):
        import_model(whitening, settings, run)
    assert RunFolder(run).fitted_maps() == ["whitening"]
