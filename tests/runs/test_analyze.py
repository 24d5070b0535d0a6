"""An analysis as a library call and a command: figures of other sentences, tables and pictures that hold them."""

import csv
import json
from pathlib import Path

import pytest
import torch

from flowbert import SentenceEncoder
from flowbert.analysis import Analysis
from flowbert.cli import main
from flowbert.data.sample import sample_corpus
from flowbert.data.sts import load_task
from flowbert.encoders.static import words_of
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.flows import Glow, save_flow
from flowbert.methods.embedder import save_encoder
from flowbert.runs.analyze import analyze

METHODS = "raw,whitening:shrinkage=0.1,flow:epochs=1"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(dict.fromkeys(sample_corpus()[:900])), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_everything_is_measured_and_written(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "analysis"
    options = ["--encoder.layers", "first_last", "--methods", METHODS, "--limit", "300", "--output", str(folder)]
    options += ["--tasks", "SAMPLE", "--split", "dev"]
    main(["analyze", "--corpus", str(corpus), *options])
    shown = capsys.readouterr().out
    distinct = len(corpus.read_text().splitlines())
    assert f"maps fitted on {distinct - 300} distinct sentences" in shown
    spaces = {
        row["method"]: {name: float(row[name]) for name in row if name != "method"}
        for row in read(folder / "sentences.csv")
    }
    assert list(spaces) == METHODS.split(",")
    assert spaces["raw"]["mean_cosine"] > 0.5 > spaces["whitening:shrinkage=0.1"]["mean_cosine"]
    assert {row["density"] for row in read(folder / "bits.csv")} >= {"flow", "flow, couplings off", "Gaussian"}
    assert {row["method"] for row in read(folder / "latents.csv")} == set(METHODS.split(",")) - {"raw"}
    assert len(read(folder / "spectra.csv")) == 3 * 128
    assert len(read(folder / "neighbours.csv")) == 5 * 3 * 5
    pictures = ["gold-SAMPLE-dev", "spectra", "norms", "map", "latent-norms", "latent-moments", "bits", "words"]
    for name in (*pictures, "word-norms", "anisotropy"):
        assert "<svg" in (folder / f"{name}.svg").read_text(), name
        assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG", name
        assert read(folder / f"{name}.csv"), name
    tables = {"sentences", "latents", "correlations", "neighbours"}
    assert {path.stem for path in folder.glob("*.csv")} == {*pictures, "word-norms", "anisotropy", *tables}
    for title in ("sentence space", "standard normal", "density of the other sentences", "norms, and their Spearman"):
        assert title in " ".join(shown.split()), title


def test_no_measured_sentence_was_fitted_on(corpus: Path) -> None:
    """A map fitted on all sentences whitens them; one that did not see them does not quite."""
    found = analyze(methods="raw,whitening-64", corpus=str(corpus), limit=10_000)
    distinct = corpus.read_text().splitlines()
    assert (found.fitted, found.measured) == (len(distinct) - len(distinct) // 2, len(distinct) // 2)
    assert found.latents["whitening-64"].squared_norm > 66
    assert not found.bits
    for sentence, by_method in found.neighbours.items():
        assert all(sentence not in [each.text for each in near] for near in by_method.values())


def test_a_flow_that_was_fitted_before(corpus: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample")
    flow = Glow(encoder.dim, depth=1, width=4)
    flow.initialize(torch.from_numpy(encoder.encode(list(sample_corpus()[:300]))))
    save_encoder(save_flow(flow, tmp_path / "run" / "model").parent, encoder)
    found = analyze(methods="flow", flow=str(tmp_path / "run"), corpus=str(corpus), limit=200)
    # No coupling has learned anything yet.
    assert found.bits["flow"] == pytest.approx(found.bits["flow, couplings off"], abs=1e-6)


def test_equal_seeds_give_equal_figures(corpus: Path) -> None:
    first, again, other = (analyze(methods="raw", corpus=str(corpus), limit=200, seed=seed) for seed in (0, 0, 1))
    assert first.spaces == again.spaces != other.spaces


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("a dog runs\n" * 300)
    with pytest.raises(UserError, match="has 1 distinct sentences; needed: 200"):
        analyze(corpus=str(tmp_path / "few.txt"))
    with pytest.raises(UserError, match="encoder: received 2 settings of path, layers and pooling; allowed: one"):
        analyze(EncoderSettings(layers=["last", "first_last"]))
    with pytest.raises(UserError, match="whitning"):
        analyze(methods="whitning")
    with pytest.raises(UserError, match=r"map: received 'tsne'; .*pca, umap"):
        analyze(map="tsne")
    with pytest.raises(
        UserError, match="tasks: received 'retrieval:SAMPLE'; allowed: STS tasks and files of own pairs"
    ):
        analyze(tasks="retrieval:SAMPLE")
    with pytest.raises(UserError, match="task SAMPLE has no split 'tset'"):
        analyze(tasks="SAMPLE", split="tset")


def test_cosines_by_gold_score_are_those_of_the_pairs_under_the_maps(corpus: Path) -> None:
    options = {"corpus": str(corpus), "limit": 200, "tasks": ["SAMPLE"]}
    found = analyze(methods="raw,truncation-128,nulling-1", split="dev,test", **options)  # type: ignore[arg-type]
    assert list(found.bands) == ["SAMPLE dev", "SAMPLE test"]
    for by_method in found.bands.values():
        # All dimensions are what they were; without the first direction they are not.
        assert by_method["raw"] == by_method["truncation-128"] != by_method["nulling-1"]
    (subset,) = load_task("SAMPLE").split("dev")
    assert sum(band.pairs for band in found.bands["SAMPLE dev"]["raw"]) == len(subset)
    encoder = SentenceEncoder.from_pretrained("builtin-sample")
    left, right = (torch.from_numpy(encoder.encode(list(each))) for each in (subset.sentences1, subset.sentences2))
    cosines = torch.nn.functional.cosine_similarity(left.double(), right.double())[subset.scores >= 4]
    assert found.bands["SAMPLE dev"]["raw"][-1].median == pytest.approx(float(cosines.quantile(0.5)), abs=1e-4)


def test_word_vectors_have_words_in_place_of_tokens(corpus: Path, tmp_path: Path) -> None:
    words = sorted({word for line in corpus.read_text().lower().split("\n") for word in line.strip(".").split()})
    rows = torch.randn(len(words), 8, generator=torch.Generator().manual_seed(0)).tolist()
    lines = [" ".join([word, *map(str, row)]) for word, row in zip(words, rows, strict=True)]
    (tmp_path / "words.txt").write_text("\n".join(lines))
    found = analyze(str(tmp_path / "words.txt"), methods="raw,whitening", corpus=str(corpus), limit=200)
    assert found.words is None
    assert found.points is not None
    assert found.points.unit == "words"
    assert found.points.lengths[0] == len(words_of(found.points.sentences[0]))
    # A mean over more words is shorter.
    assert found.norms["raw"].with_length < -0.3


def test_an_analysis_comes_back_from_json(corpus: Path) -> None:
    found = analyze(methods="raw,flow:epochs=1", corpus=str(corpus), limit=200, tasks="SAMPLE")
    assert Analysis.from_json(json.loads(json.dumps(found.as_json(), allow_nan=False))) == found
