"""Vectors from elsewhere on the command line: the same figures as the sentences they are of, and clear refusals."""

import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from flowbert import SentenceEncoder, VectorTable, Whitening, compare, encode, encode_vectors, load, load_task
from flowbert.cli import main
from flowbert.errors import UserError
from flowbert.vectors import Ranges, quantize, write_vectors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of the sample's test sentences, pairs and relevance by row number, and a run fitted on them."""
    folder = tmp_path_factory.mktemp("vectors")
    (subset,) = load_task("SAMPLE").split("test")
    subset = subset.where(np.arange(len(subset)) < 300)
    sentences = list(dict.fromkeys((*subset.sentences1, *subset.sentences2)))
    x = SentenceEncoder.from_pretrained("builtin-sample", layers="first_last").encode(sentences)
    rows = {text: row for row, text in enumerate(sentences)}
    (folder / "sentences.txt").write_text("\n".join(sentences))
    write_vectors(folder / "x.npy", [x], x.shape, "float32")
    first, second = ([rows[text] for text in side] for side in (subset.sentences1, subset.sentences2))
    pairs = pyarrow.table({"a": first, "b": second, "score": subset.scores})
    pyarrow.parquet.write_table(pairs, folder / "pairs.parquet")
    own = pyarrow.table({"a": subset.sentences1, "b": subset.sentences2, "score": subset.scores})
    pyarrow.parquet.write_table(own, folder / "own.parquet")
    fit = ["fit", "--method", "whitening", "--whitening.shrinkage", "0.1"]
    main([*fit, "--vectors", str(folder / "x.npy"), "--run_dir", str(folder / "run")])
    return folder


def test_figures_are_those_of_the_sentences(folder: Path) -> None:
    asked = ["--methods", "raw,whitening-16:shrinkage=0.1", "--columns", "a,b,score", "--bootstrap", "0"]
    figures = []
    for name, source in (
        ("pairs", ["--vectors", str(folder / "x.npy")]),
        ("own", ["--encoder.layers", "first_last", "--corpus", str(folder / "sentences.txt")]),
    ):
        tasks = ["--tasks", str(folder / f"{name}.parquet"), "--retrieval", str(folder / f"{name}.parquet")]
        main(["evaluate", *source, *asked, *tasks, "--output", str(folder / f"{name}.json")])
        rows = json.loads((folder / f"{name}.json").read_text())["rows"]
        figures.append([(row["method"], row["metric"], row["spearman"], row["value"]) for row in rows])
    assert [found[:2] for found in figures[0]] == [found[:2] for found in figures[1]]
    of_vectors, of_sentences = (np.array([[v or 0 for v in found[2:]] for found in each]) for each in figures)
    np.testing.assert_allclose(of_vectors, of_sentences, atol=1e-4)


def test_a_second_evaluation_knows_the_vectors_by_their_numbers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = VectorTable.open(folder / "x.npy").take(range(50))
    (tmp_path / "p.csv").write_text("sentence1,sentence2,score\n" + "".join(f"{i},{i + 1},{i}\n" for i in range(49)))
    for suffix, known in ((".npy", False), (".parquet", True)):
        write_vectors(tmp_path / f"x{suffix}", [x], x.shape, "float32")
        compare(
            vectors=tmp_path / f"x{suffix}", tasks=str(tmp_path / "p.csv"), output=tmp_path / "r.json", methods="raw"
        )
        assert ("figures are in" in capsys.readouterr().err) == known
    found = compare(
        vectors=x, tasks=str(tmp_path / "p.csv"), corpus=str(folder / "x.npy"), methods="raw,whitening-8", bootstrap=0
    )
    assert {row.corpus for row in found.rows} == {"none", str(folder / "x.npy")}


def test_a_saved_map_takes_new_vectors_of_its_size(folder: Path, tmp_path: Path) -> None:
    x = VectorTable.open(folder / "x.npy").take(range(400))
    write_vectors(tmp_path / "new.parquet", [x], x.shape, "float32")
    run = ["--model", str(folder / "run"), "--vectors", str(tmp_path / "new.parquet")]
    for suffix in (".npy", ".parquet", ".safetensors", ".arrow"):
        main(["encode", *run, "--output", str(tmp_path / f"out{suffix}")])
        mapped = VectorTable.open(tmp_path / f"out{suffix}").take(range(400))
        expected = Whitening.load(folder / "run" / "model" / "whitening.safetensors").transform(x).numpy()
        np.testing.assert_allclose(mapped, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(encode_vectors(x, model=folder / "run"), mapped)
    np.testing.assert_array_equal(encode_vectors(x, model=folder / "run", method="raw"), x)
    with pytest.raises(UserError, match=r"vectors: those of array have the size 5; allowed with whitening in .*: 128"):
        encode_vectors(x[:, :5], model=folder / "run")


def test_int8_has_the_scale_of_the_fit(folder: Path, tmp_path: Path) -> None:
    x = VectorTable.open(folder / "x.npy").take(range(40))
    scale = Ranges.load(folder / "run" / "model" / "whitening.int8")
    mapped = encode_vectors(x, model=folder / "run")
    codes = encode_vectors(x, model=folder / "run", precision="int8")
    np.testing.assert_array_equal(codes, quantize(mapped, "int8", scale))
    np.testing.assert_array_equal(encode_vectors(x[:7], model=folder / "run", precision="int8"), codes[:7])
    with pytest.warns(UserWarning, match="int8: no saved scale, so that of these 40 vectors"):
        np.testing.assert_array_equal(encode_vectors(x, precision="int8"), quantize(x, "int8"))
    with pytest.raises(UserError, match="precision: received int8 for one vector"):
        encode_vectors(x[:1], precision="int8")
    assert encode_vectors(x[:1], model=folder / "run", precision="int8").tolist() == codes[:1].tolist()
    shape = encode_vectors(x, tmp_path / "b.npy", model=folder / "run", precision="binary")
    assert shape == np.load(tmp_path / "b.npy").shape == (40, 16)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), quantize(mapped, "binary"))


def test_a_fit_on_sentences_saves_the_scale_that_new_sentences_have(tmp_path: Path, pairs: Path) -> None:
    run = tmp_path / "run"
    fit = ["fit", "--method", "whitening", "--whitening.shrinkage", "0.1", "--tasks", str(pairs)]
    main([*fit, "--run_dir", str(run), "--data.store", "memory"])
    texts = ["a dog runs", "the cat sleeps on a chair", "two men play"]
    for method in ("raw", "whitening"):
        scale = Ranges.load(run / "model" / f"{method}.int8")
        vectors = encode(texts, model=run, method=method)
        codes = encode(texts, model=run, method=method, precision="int8")
        np.testing.assert_array_equal(codes, quantize(vectors, "int8", scale))
        # Beside other sentences a vector has other last digits, and so perhaps the next code.
        alone = encode(texts[:1], model=run, method=method, precision="int8").astype(int)
        assert np.abs(alone - codes[:1]).max() <= 1
        scaled = load(run, method)
        np.testing.assert_array_equal(scaled.encode(texts, precision="int8", truncate_dim=9), codes[:, :9])
        with pytest.raises(UserError, match="normalize_embeddings: received True with precision int8"):
            scaled.encode(texts, precision="int8", normalize_embeddings=True)
        signs = encode(texts, model=run, method=method, precision="binary", output=tmp_path / "v.parquet")
        np.testing.assert_array_equal(signs, quantize(vectors, "binary"))
        assert pyarrow.parquet.read_table(tmp_path / "v.parquet").column("sentence").to_pylist() == texts


REFUSED = {
    "evaluate --tasks STSB": "--tasks: received 'STSB', which has sentences; allowed with vectors: files of pairs",
    "evaluate": "--tasks: received none; allowed with vectors: files of pairs by row number",
    "evaluate --tasks P --encoder.layers last": "--encoder.layers: received 'last'; allowed with vectors: nothing",
    "evaluate --tasks P --encoder.pooling idf": "--encoder.pooling: received 'idf'; allowed with vectors: nothing",
    "evaluate --tasks P --corpus nli": "--corpus: received 'nli'; allowed with vectors: target (all rows), or a file",
    "evaluate --tasks P --lexical words": "--lexical: received 'words'; allowed with vectors: nothing",
    "evaluate --probe SAMPLE": "--probe: received 'SAMPLE', which needs sentences; allowed with vectors: answers, sts",
    "evaluate --answers hub": "--answers: received 'hub', which has sentences",
    "evaluate --tasks P --column v": "--column: received 'v'",
    "fit --tasks SAMPLE": "--tasks: received 'SAMPLE', which has sentences",
    "fit --corpus nli": "--corpus: received 'nli'; allowed with vectors: target",
    "fit --encoder.counts run": "--encoder.counts: received 'run'; allowed with vectors: nothing",
    "fit --data.store none": "--data.store: received 'none'; allowed with vectors: disk",
    "fit --recommended true": "--recommended: received True; allowed with vectors: nothing",
    "fit --method simcse": "unknown option --vectors",
    "encode --output o.npy --input s.txt": "--input: received 's.txt'; allowed with vectors: nothing",
    "encode --output o.npy --encoder.path DIR": "--encoder.path: received 'DIR'; allowed with vectors: builtin-sample",
    "encode --output o.npy --method flow": "--method: received 'flow'; allowed with model",
    "encode --output o.npy --precision int4": "--precision: received 'int4'; allowed: float32, int8, binary",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_makes_no_sense_with_vectors_is_one_line(
    folder: Path, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = words.replace(" P", f" {folder / 'pairs.parquet'} --columns a,b,score").split()
    with pytest.raises(SystemExit) as stop:
        main([command, "--vectors", str(folder / "x.npy"), *options])
    shown = capsys.readouterr().err.strip()
    assert stop.value.code == 2
    assert shown.startswith("error: ")
    assert REFUSED[words] in shown
    assert "\n" not in shown
    assert not list(tmp_path.iterdir())


def test_a_map_of_vectors_has_no_encoder_for_sentences(folder: Path) -> None:
    with pytest.raises(
        UserError, match=r"fitted on vectors of size 128 from .*x\.npy; received an encoder; allowed: vec"
    ):
        encode(["a dog"], model=folder / "run")
