"""Advice for a corpus: every setting by the criterion, a file that fit takes, and clear lines for what cannot be."""

import math
from pathlib import Path

import pytest
import yaml
from helpers.encoders import make_encoder

from flowbert import advise
from flowbert.advice.choice import Advice, Candidate
from flowbert.cli import main
from flowbert.data.sample import sample_corpus
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.methods.embedder import saved_encoder
from flowbert.report.advice import advice_to_text


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    file = tmp_path / "own.txt"
    file.write_text("\n".join(list(dict.fromkeys(sample_corpus()))[:900]) + "\n")
    return str(file)


def test_the_advised_setting_is_the_best_and_the_same_again(corpus: str) -> None:
    found = advise("builtin-sample", corpus)
    values = [candidate.criterion for candidate in found.candidates]
    assert values[1:] == sorted(values[1:], reverse=True)
    assert values[0] >= 0.99 * max(values)
    assert all(math.isfinite(each.criterion) and each.low <= each.high for each in found.candidates)
    assert {each.method for each in found.candidates} > {"raw", "whitening:shrinkage=0.3"}
    # The same map on other layers is no rival: layers come with a map.
    assert not any(each.tied for each in found.candidates if each.method == found.best.method)
    assert advise("builtin-sample", corpus) == found


@pytest.mark.parametrize("others", [0, 1])
def test_word_vectors_and_several_encoders_are_refused(corpus: str, tmp_path: Path, others: int) -> None:
    vectors = tmp_path / "words.txt"
    vectors.write_text("a 1.0 2.0\n")
    path = "builtin-sample,other" if others else str(vectors)
    with pytest.raises(UserError, match=f"path: received {path}; allowed: one encoder, no word vectors"):
        advise(path, corpus)


def test_a_decoder_is_advised_no_cls(corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowbert.advice.cls_token._ENOUGH", 0.0)
    found = advise(str(make_encoder(tmp_path / "gpt2", "gpt2")), corpus)
    assert found.with_map == ("embedding_last", "zipf")


@pytest.mark.parametrize(("share", "pooling"), [(0.75, "zipf"), (0.05, "zipf:cls=16")])
def test_cls_takes_part_where_it_tells_views_apart(
    corpus: str, share: float, pooling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowbert.advice.cls_token._ENOUGH", share)  # the sample's encoder never trained its [CLS]
    found = advise("builtin-sample", corpus)
    assert found.setting == ("embedding_last", pooling, found.best.method)
    assert ("answers better without [CLS]: pooling zipf." in found.note) == (pooling != "zipf")


def test_fit_takes_the_file_as_it_stands(corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "advice.yaml"
    encoder = ["--encoder.max_length", "40", "--encoder.prompt", "it says: "]
    main(["advise", "--corpus", corpus, *encoder, "--output", str(output)])
    shown = capsys.readouterr().out
    assert "taken" in shown
    assert "Take: " in shown
    content = yaml.safe_load(output.read_text())
    assert (content["encoder"]["max_length"], content["encoder"]["prompt"]) == (40, "it says: ")
    main(["fit", "--config", str(output), "--run_dir", str(tmp_path / "run")])
    assert (tmp_path / "run" / "model" / "whitening.safetensors").exists()
    assert saved_encoder(tmp_path / "run")["prompt"] == "it says: "
    source = tmp_path / "in.txt"
    source.write_text("a dog runs\n")
    main(["encode", "--model", str(tmp_path / "run"), "--input", str(source), "--output", str(tmp_path / "v.npy")])


def test_a_seed_that_fit_refuses_is_refused(corpus: str) -> None:
    with pytest.raises(UserError, match="seed: received -1; allowed: a whole number from 0 to 4294967295"):
        advise("builtin-sample", corpus, seed=-1)


def test_a_file_that_is_no_advice_is_left_alone(corpus: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("corpus: target\n")
    with pytest.raises(UserError, match=r"output: .*mine.yaml is there and no earlier advice; allowed: another file"):
        advise("builtin-sample", corpus, output=mine)
    assert mine.read_text() == "corpus: target\n"
    mine.unlink()
    for _ in range(2):
        advise("builtin-sample", corpus, output=mine)
    assert mine.read_text().startswith("# advised: ")


def made(method: str, tied: bool = False) -> Advice:
    best = Candidate("last", method, 2.0, 1.9, 2.1)
    other = Candidate("last", "raw" if method != "raw" else "whitening", 1.9, 1.8, 2.0, tied=tied)
    return Advice((best, other), 100, {"corpus": "own.txt"}, {"path": "e"}, ("first_last", "zipf"))


def test_it_says_whether_it_is_sure() -> None:
    assert made("whitening").reasons[1].startswith("Resampled, these sentences give the same advice")
    assert made("whitening", tied=True).reasons[1].startswith("Unsure between it and raw, layers last")
    assert "within the interval" in advice_to_text(made("whitening", tied=True))


def test_raw_is_advice_too() -> None:
    found = made("raw")
    assert "Nothing is to be fitted: `encode` with layers last and pooling mean." in found.yaml()
    assert "a classifier on top" in made("whitening").yaml()
    assert found.config()["encoder"] == {"path": "e", "layers": "last", "pooling": "mean"}
    assert found.config()["whitening"] == {"shrinkage": 0.8}  # beside raw
    shrunk = made("whitening:shrinkage=0.3").config()
    assert shrunk["encoder"] == {"path": "e", "layers": "first_last", "pooling": "zipf"}  # they come with a map
    assert shrunk["whitening"] == {"shrinkage": 0.3}


def test_too_few_sentences_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "few.txt"
    file.write_text("a word\n" * 60 + "a dog runs home\n")
    with pytest.raises(UserError, match="1 distinct sentences of 4 words or more; needed: 50"):
        advise("builtin-sample", str(file))


def test_what_is_chosen_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["advise", "--encoder.layers", "last"])
    assert "unknown option --encoder.layers" in capsys.readouterr().err


def test_settings_of_the_encoder_reach_the_file(corpus: str) -> None:
    found = advise(EncoderSettings(max_length=20, layers="last"), corpus)
    assert found.config()["encoder"]["max_length"] == 20
