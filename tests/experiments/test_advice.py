"""Advice: its rule, its commands, the candidate that follows it; commands after a verdict."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from encoders.tiny import DENSE, add_modules, write_tiny
from experiments.small import write_pairs, write_sentence_transformer
from flowbert import analyze, compare
from flowbert.cli import main
from flowbert.cli.parse import read_line, read_options
from flowbert.data.sample import sample_corpus
from flowbert.encoders import EncoderOptions, SentenceEncoder
from flowbert.experiments.commands import next_commands
from flowbert.extras.advice import advise
from helpers import refused, with_slow

SENTENCES = list(dict.fromkeys(sample_corpus()))[:200]
RECIPE = ("embedding_last", "zipf", "whitening:shrinkage=0.3")


def test_a_folder_of_sentence_transformers_keeps_what_it_is(tmp_path):
    advice = advise(write_sentence_transformer(tmp_path / "st", "cls"))
    assert (advice.layers, advice.pooling, advice.method) == ("last", "cls", "raw")
    # With further modules there are no layers to choose.
    folder = add_modules(write_tiny(tmp_path / "dense"), ("Pooling", {}), DENSE)
    advice = advise(str(folder))
    assert advice.method == "raw"
    assert "--encoder.layers" not in str(advice)
    # An object in memory is the folder that it was loaded from.
    assert str(advise(SentenceTransformer(str(folder)))) == str(advice)


def test_any_other_encoder_gets_the_recipe(corpus, tmp_path):
    SentenceEncoder(pooling="cls").save(tmp_path / "cls")
    trained = advise(str(tmp_path / "cls"), corpus)
    for advice in (trained, advise(corpus=corpus)):
        assert (advice.layers, advice.pooling, advice.method) == RECIPE


def test_a_decoder_gets_a_template(corpus, tmp_path):
    encoder = str(write_tiny(tmp_path / "llama", "llama"))
    for given in (encoder, SentenceEncoder(encoder)):
        advice = advise(given, corpus)
        used = (advice.template, advice.layers, advice.pooling, advice.method)
        assert used == ("prompteol", "last", "last_token", "whitening:shrinkage=0.8")
        assert "--encoder.template prompteol" in str(advice)
    own = EncoderOptions(encoder, template="the {} in")
    assert advise(own, corpus).template == "the {} in"


def test_learned_token_weights_are_kept(corpus, tmp_path):
    encoder = SentenceEncoder(layers=0, pooling="learned_weights", frozen=False)
    factors = encoder.log_token_factors
    assert factors is not None
    factors.weight.data = torch.linspace(-1, 1, factors.num_embeddings).unsqueeze(1)
    encoder.save(tmp_path / "words")
    advice = advise(str(tmp_path / "words"), corpus)
    used = (advice.layers, advice.pooling, advice.method)
    assert used == ("0", "learned_weights", RECIPE[-1])


def run_commands(text):
    """Run the commands of a text; their names."""
    lines = [line for line in text.splitlines() if line.startswith("    flowbert ")]
    for line in lines:
        main([*shlex.split(line)[1:], "--quiet"])
    return [line.split()[1] for line in lines]


@pytest.mark.parametrize("raw", with_slow([True, False], [False]))
def test_its_commands_run(raw, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("PAIRS.csv").write_text(
        "sentence1,sentence2,score\na dog,a cat,1\na cat,two cats,4\nyes,no,0\n"
    )
    own: dict[str, Any] = {"max_length": 40, "template": "it says: {}"}
    path = write_sentence_transformer(tmp_path / "st") if raw else "builtin-sample"
    Path("SENTENCES.txt").write_text(Path(corpus).read_text())
    advice = advise(EncoderOptions(path, **own), corpus)
    commands = run_commands(str(advice))
    assert commands == ["encode" if raw else "fit", "compare"]
    if raw:
        encoder = SentenceEncoder(path, layers=advice.layers, **own)
        first = Path(corpus).read_text().splitlines()[0]
        assert np.array_equal(np.load("vectors.npy")[:1], encoder.encode([first]))
    else:
        (file,) = Path("my-model").rglob("encoder.json")
        assert '"it says: {}"' in file.read_text()


def test_compare_follows_the_advice_of_each_encoder(corpus, pairs, tmp_path):
    folder = write_sentence_transformer(tmp_path / "st", "cls")
    given: dict[str, Any] = {"corpus": corpus, "tasks": pairs[0], "bootstrap": 0}
    results = compare(EncoderOptions(["builtin-sample", folder]), "advised", **given)
    for encoder in ("builtin-sample", folder):
        advice = advise(encoder, corpus)
        name = f"advised: {advice.method}"
        (rows,) = results.frame.query("encoder == @encoder").groupby("method")
        assert rows[0] == name
        plain = EncoderOptions(encoder, layers=advice.layers, pooling=advice.pooling)
        direct = compare(plain, f"{advice.method},whitening-8", **given)
        score = results.score(name, "one", encoder=encoder)
        assert score == direct.score(advice.method, "one")


def test_commands_have_the_options_that_were_given_and_no_others(tmp_path):
    corpus = tmp_path / "my file.csv"
    corpus.touch()
    options = {"corpus": str(corpus), "column": "text"}
    lines = str(advise(**options)).splitlines()
    fit = next(line for line in lines if "flowbert fit" in line)
    given = {"encoder.path": "builtin-sample", "encoder.layers": RECIPE[0]}
    given |= {"encoder.pooling": RECIPE[1], **options}
    words = [word for key, value in given.items() for word in (f"--{key}", value)]
    assert shlex.split(fit)[4:] == [*words, "--run_dir", "my-model"]


def gain(method, **columns):
    """A method that the verdict uses."""
    role, options = "reference", {"encoder": {"path": "bert"}}
    if method != "raw":
        role, options = "method", {"method": method} | options
    plain = {"method": method, "role": role, "map": method, "options": options}
    return plain | columns


def test_the_next_commands_use_the_method_of_the_verdict(tmp_path):
    def commands(*used):
        return next_commands(tmp_path, {"used": used})

    files = "--input FILE --output vectors.npy"
    as_it_comes = [f"encode --encoder.path bert {files}"]
    fit = "fit --method {} --encoder.path {} --corpus FILE --run_dir my-model"
    assert commands(gain("raw")) == as_it_comes
    assert commands(gain("zca")) == [fit.format("zca", "bert")]
    assert commands() == commands(gain("mine", options={})) == []
    # The options of a record are sorted by name.
    row = gain("zca", options={"encoder": {"layers": 0, "path": "b"}, "method": "zca"})
    assert commands(row)[0].split()[1:7:2] == [
        "--method",
        "--encoder.path",
        "--encoder.layers",
    ]
    # A comparison knows its corpus, but for that of each of several tasks.
    config: dict[str, Any] = {"corpus": "a b.txt,target", "column": "text", "nli": None}
    config |= {"tasks": "p.csv", "senteval": None, "columns": "x,y,z"}
    config |= {"score_range": [0, 5], "skip_invalid": True}
    config |= {"max_sentences": None, "seeds": [3, 4]}
    rows = "--score_range '[0, 5]' --skip_invalid True"
    corpora = {
        ("a b.txt", "p.csv"): "'a b.txt' --seed 3 --column text",
        ("target", "p.csv"): f"target --seed 3 --tasks p.csv --columns x,y,z {rows}",
        ("target", "p.csv,q.csv"): "FILE --seed 3",
    }
    for (corpus, tasks), expected in corpora.items():
        record = {"config": config | {"tasks": tasks}}
        used = [gain("zca", corpus=corpus)]
        (command,) = next_commands(tmp_path, record | {"used": used})
        assert command == fit.format("zca", "bert").replace("FILE", expected)
    # A comparison that changes nothing has not tried the advice, unless it was among the methods.
    for methods in ("raw,advised", ["raw", "advised"], {"a": "raw", "b": "advised"}):
        kept = {"used": [gain("raw")], "config": {**config, "methods": methods}}
        assert next_commands(tmp_path, kept) == as_it_comes
    words = {
        "used": [gain("raw", layers="words")],
        "config": config | {"methods": "raw"},
    }
    assert next_commands(tmp_path, words) == as_it_comes
    # A run has a model, which is a map, or a trained encoder without a map.
    (tmp_path / "model").mkdir()
    assert commands(gain("raw")) == as_it_comes
    assert commands(gain("zca")) == [
        f"encode --model {tmp_path} --method zca {files}",
        f"export {tmp_path} --method zca --to FOLDER",
    ]
    (tmp_path / "model" / "encoder").mkdir()
    assert commands(gain("zca")) == [fit.format("zca", "bert")]
    trained = gain("simcse", map="raw", options={})
    assert commands(trained)[0] == f"encode --model {tmp_path} {files}"
    head = gain("simcse+zca", map="zca", options={})
    assert commands(head) == [fit.format("zca", tmp_path)]


def test_the_comparison_with_the_advice_keeps_the_other_options(tmp_path):
    pairs, corpus = tmp_path / "pairs.csv", tmp_path / "a b.csv"
    write_pairs(pairs)
    corpus.write_text("text,n\n" + "".join(f"sentence {n},{n}\n" for n in range(40)))
    options: dict[str, Any] = {
        "tasks": str(pairs),
        "corpus": str(corpus),
        "column": "text",
        "max_sentences": 30,
        "seeds": [1, 2],
        "score_range": [0, 99],
        "skip_invalid": True,
        "bootstrap": 5,
    }
    cut = EncoderOptions(max_length=40)
    about = compare(cut, methods="raw,centering", **options).about
    used = {"max_length": 40, "path": "builtin-sample"}
    (row,) = about["used"]
    assert used.items() <= row["options"]["encoder"].items()
    command, *_ = next_commands(tmp_path, {**about, "used": [gain("raw")]})
    read = read_options(read_line("compare", shlex.split(command)[1:]))
    assert {name: getattr(read, name) for name in options} == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "missing"}, "encoder: received 'missing'"),
        (
            {"encoder": "words.txt"},
            "encoder: received words.txt; expected a transformer",
        ),
    ],
)
def test_mistakes(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Path("words.txt").write_text("dog 1.0 2.0\n")
    refused(message, advise, **options)


def test_what_is_not_compare_names_the_way_to_the_advice(tmp_path):
    (tmp_path / "words.txt").write_text("dog 1.0 2.0\na 2.0 1.0\n")
    words = EncoderOptions(str(tmp_path / "words.txt"))
    refused(r"words\.txt; expected a transformer", compare, words, "raw,advised")
    refused(
        "expected the method that advise recommends", analyze, methods="raw,advised"
    )
