"""Sentences, files and vectors to vectors, in memory and in files."""

import inspect
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file
from sentence_transformers import quantize_embeddings

from flowbert import encoding
from flowbert.cli import main
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoders
from flowbert.encoders.passes import encode_together
from flowbert.encoding import PRECISIONS, encode
from flowbert.maps import Whitening
from flowbert.model import Model
from flowbert.options import EncodeOptions, field_documents
from flowbert.vectors import as_vectors
from helpers import refused, warned

TEXTS = [f"a dog runs {number} miles" for number in range(25)]
FORMATS = ("npy", "safetensors", "parquet")


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder(layers="first_last")


@pytest.fixture(scope="module")
def raw(encoder):
    return encoder.encode(TEXTS)


@pytest.fixture(scope="module")
def model(encoder, raw):
    """A whitening of two hidden states."""
    return Model(encoder, Whitening(8, shrinkage=0.1).fit(raw))


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    model.save(folder / "model")
    return str(folder)


def read(path):
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".safetensors":
        return load_file(path)["embeddings"]
    table = pq.read_table(path)
    assert table["sentence"].to_pylist() == TEXTS
    return np.stack(table["embedding"].to_pylist())


def test_the_command(model, run, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    words = f"encode --input {tmp_path}/a.txt --model {run} --device cpu --quiet"
    main([*words.split(), "--precision=int8", f"--output={tmp_path}/b.npy"])
    low, high = np.load(tmp_path / "b.ranges.npy")
    codes, vectors = np.load(tmp_path / "b.npy"), model.encode(TEXTS)
    assert codes.dtype == np.int8
    # As the documents restore them: half a step, and the rounding of float32.
    restored = low + (codes + 128.5) * (high - low) / 255
    assert (np.abs(restored - vectors) <= 0.51 * (high - low) / 255).all()
    again = [*words.split(), "--precision=uint8", f"--output={tmp_path}/c.npy"]
    main([*again, f"--ranges={tmp_path}/b.ranges.npy"])
    assert_array_equal(np.load(tmp_path / "c.npy"), codes.astype(int) + 128)
    assert not (tmp_path / "c.ranges.npy").exists()
    # Beyond the ranges: as the nearest value inside.
    low, high = narrow = np.stack([low, high]) / 2
    codes = encode(TEXTS, model=run, precision="int8", ranges=narrow)
    restored = low + (codes + 128.5) * (high - low) / 255
    clipped = np.clip(vectors, low, high)
    assert (np.abs(restored - clipped) <= 0.51 * (high - low) / 255).all()


@pytest.mark.parametrize("precision", set(PRECISIONS) - {"bfloat16"})
def test_sentences_with_a_model(precision, model, run, tmp_path):
    vectors = model.encode(TEXTS)
    ranges = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
    if precision == "float16":
        expected = vectors.astype(np.float16)
    elif precision == "int8":  # which old versions round to 0
        codes = quantize_embeddings(vectors, "uint8", ranges=ranges)
        expected = (np.asarray(codes).astype(int) - 128).astype(np.int8)
    else:
        expected = quantize_embeddings(vectors, precision, ranges=ranges)
    options: dict[str, Any] = {"model": run, "precision": precision}
    assert_array_equal(encode(TEXTS, **options), expected)
    formats = FORMATS if precision in ("float32", "int8") else FORMATS[:1]
    for name in formats:
        path = tmp_path / f"a.{name}"
        assert encode(TEXTS, **options, output=path) == expected.shape
        assert_array_equal(read(path).astype(expected.dtype), expected)


def test_every_precision_that_is_computed_or_described_is_allowed():
    source = inspect.getsource(encoding)
    computed = re.findall(r'precision\b[^"\n]*"(\w+)"', source)
    described = re.findall(r"``(\w+)``", field_documents(EncodeOptions)["precision"])
    assert {*computed} < {*PRECISIONS} == {*described}


def test_files_of_sentences(raw, tmp_path):
    options = EncoderOptions(layers="first_last")
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    table = "\n".join(["text\tnumber", *(f"{text}\t1" for text in TEXTS)])
    (tmp_path / "a.tsv").write_text(table)
    for name, column in (("a.txt", None), ("a.tsv", "text")):
        path = str(tmp_path / name)
        vectors = encode(input=path, column=column, encoder=options)
        assert_array_equal(vectors, raw)
    (tmp_path / "b.txt").write_text("\n\n".join(TEXTS))
    with warned("24 blank lines left out"):
        encode(input=str(tmp_path / "b.txt"))


@pytest.fixture
def write_to_stdin():
    """Function that makes some bytes the standard input."""
    stdin = os.dup(0)

    def write(content):
        end, start = os.pipe()
        os.write(start, content)
        os.close(start)
        os.dup2(end, 0)
        os.close(end)

    yield write
    os.dup2(stdin, 0)
    os.close(stdin)


def test_standard_input(raw, write_to_stdin):
    write_to_stdin("\n".join(TEXTS).encode())
    vectors = encode(input="-", encoder=EncoderOptions(layers="first_last"))
    assert_array_equal(vectors, raw)
    for content, message in [(b"", "has no sentence"), (b"\xff", "line 1 is not")]:
        write_to_stdin(content)
        refused(f"/dev/stdin: {message}", encode, input="-")


def test_vectors(model, run, raw, tmp_path):
    np.save(tmp_path / "raw.npy", raw)
    for given in (raw, tmp_path / "raw.npy"):
        assert_array_equal(encode(vectors=given), raw)
        mapped = encode(vectors=given, model=run)
        assert_array_equal(mapped, model.encode(TEXTS))
        codes = encode(vectors=given, model=run, precision="int8")
        assert_array_equal(codes, encode(TEXTS, model=run, precision="int8"))


def interrupt_at(monkeypatch, text):
    """Interrupt in front of the block of a sentence; lists what is encoded."""
    monkeypatch.setattr(encoding, "BLOCK_SENTENCES", 10)
    encoded = []

    def interrupted(encoders, texts, *options):
        if text in texts:
            raise KeyboardInterrupt
        encoded.extend(texts)
        return encode_together(encoders, texts, *options)

    monkeypatch.setattr("flowbert.encoders.encoder.encode_together", interrupted)
    return encoded


@pytest.mark.parametrize(
    ("text", "name"),
    [(TEXTS[0], "a.npy"), (TEXTS[20], "a.safetensors"), (TEXTS[20], "a.parquet")],
)
def test_an_interruption_that_leaves_nothing(text, name, tmp_path, monkeypatch):
    interrupt_at(monkeypatch, text)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        encode(TEXTS, output=tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_interrupted_npy_file_goes_on(precision, tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    path.write_bytes(b"older")
    options: dict[str, Any] = {"precision": precision, "output": path}
    if precision == "int8":
        options["ranges"] = np.stack([np.full(128, -2.0), np.full(128, 2.0)])
    interrupt_at(monkeypatch, TEXTS[20])
    kept = r"/\.a\..*\.npy has what is finished; the same command resumes$"
    with pytest.raises(KeyboardInterrupt, match=kept):
        encode(TEXTS, **options)
    assert path.read_bytes() == b"older"
    encoded = interrupt_at(monkeypatch, "")
    assert encode(TEXTS, **options)[0] == 25
    assert encoded == TEXTS[20:]
    assert list(tmp_path.iterdir()) == [path]
    assert_array_equal(np.load(path), encode(TEXTS, **{**options, "output": None}))


def test_other_vectors_start_again(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    interrupt_at(monkeypatch, TEXTS[20])
    with pytest.raises(KeyboardInterrupt):
        encode(TEXTS, output=path)
    encoded = interrupt_at(monkeypatch, "")
    encode([*TEXTS[:-1], "another"], output=path)
    encode(TEXTS, precision="float16", output=path)
    encode(TEXTS, encoder=EncoderOptions(layers="first_last"), output=path)
    assert len(encoded) == 75


@pytest.mark.slow
def test_two_processes_write_what_one_writes(raw, tmp_path):
    script, link = tmp_path / "script.py", tmp_path / "link.npy"
    link.symlink_to("a.npy")
    script.write_text(
        "from flowbert.encoding import encode\n"
        "from flowbert.encoders import EncoderOptions\n"
        "encoder = EncoderOptions(layers='first_last')\n"
        f"encode({TEXTS!r}, encoder=encoder, devices=2, output='link.npy')\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path)
    # Sums of float32 in another order: other sentences in a batch.
    assert_allclose(np.load(tmp_path / "a.npy"), raw, atol=1e-5)
    assert link.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {
        "script.py",
        "link.npy",
        "a.npy",
    }


def test_one_string_is_one_sentence(run, tmp_path):
    moved = {"model": run, "encoder": "builtin-sample"}
    assert encode(TEXTS[0], **moved).shape == (8,)
    written = encode(TEXTS[0], **moved, method="raw", output=tmp_path / "a.npy")
    assert written == (1, 128)


@pytest.mark.parametrize("pooling", ["idf", "sif:cls=2"])
def test_what_counts_tokens_does_not_count_what_is_encoded(pooling, tmp_path):
    options = EncoderOptions(pooling=pooling)
    refused(r"^pooling: received .*fitted model", encode, TEXTS, encoder=options)
    counted = SentenceEncoder(pooling=pooling, count_over=TEXTS[:5])
    counted.save(tmp_path / "own")
    alone = counted.encode(TEXTS[7:8])
    written = f"sif:a=0.001:{pooling.partition(':')[2]}"
    for named in (None, written if "sif" in pooling else pooling):
        own = EncoderOptions(str(tmp_path / "own"), pooling=named)
        vectors = encode(TEXTS, encoder=own)
        # Other sentences in a batch: sums of float32 in another order.
        assert_allclose(vectors[7], alone[0], atol=1e-5)
        (opened,) = open_encoders(own, TEXTS)
        assert opened.identity == counted.identity


MISTAKES = [
    ({"sentences": None}, "input: received 0"),
    ({"precision": "int4"}, "precision: received 'int4'"),
    (
        {"precision": "int8", "ranges": np.eye(2)},
        r"ranges: received \(2, 2\)",
    ),
    ({"output": "a.csv"}, "output: received a.csv"),
    ({"method": "flow"}, "method: received 'flow' without"),
    ({"devices": 2}, "devices: received 2"),
    ({"encoder": EncoderOptions(layers="pairs")}, "encoder"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_mistakes(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(message, encode, **{"sentences": TEXTS} | options)
    assert list(tmp_path.iterdir()) == []


def test_what_a_model_refuses(run):
    refused("method: received 'flow'", encode, TEXTS, model=run, method="flow")
    refused("size 2; expected 128", encode, vectors=np.ones((3, 2)), model=run)


def test_bfloat16_in_safetensors(raw, tmp_path):
    options: dict[str, Any] = {"encoder": EncoderOptions(layers="first_last")}
    path = tmp_path / "a.safetensors"
    encode(TEXTS, **options, precision="bfloat16", output=path)
    assert path.stat().st_size < 2 * raw.size + 200
    rounded = torch.from_numpy(raw).bfloat16().float().numpy()
    assert_array_equal(encode(vectors=path), rounded)
    message = "^precision: received 'bfloat16'; expected float16, or an output"
    for output in (None, tmp_path / "a.npy"):
        refused(message, encode, TEXTS, **options, precision="bfloat16", output=output)


LARGE = np.linspace(0, 1, 24, dtype=np.float32).reshape(12, 2)


@pytest.mark.parametrize(
    ("precision", "largest", "beyond", "name"),
    [
        ("float16", 65504, 65520, "a.npy"),
        ("float16", 65504, 65520, "a.parquet"),
        ("float16", 65504, 65520, None),
        (
            "bfloat16",
            torch.finfo(torch.bfloat16).max,
            torch.finfo(torch.float32).max,
            "a.safetensors",
        ),
    ],
)
def test_what_a_precision_cannot_hold_is_not_written(
    precision, largest, beyond, name, tmp_path
):
    """The largest value that it can hold is written; what rounds to infinity is an error."""
    options: dict[str, Any] = {"precision": precision}
    if name is not None:
        options["output"] = tmp_path / name
    fits = LARGE * np.float32(largest)
    encode(vectors=fits, **options)
    for path in tmp_path.iterdir():
        assert as_vectors(path)[:].max() == largest
        path.unlink()
    fits[-1, -1] = beyond
    refused(
        f"^precision: received '{precision}'; expected float32",
        encode,
        vectors=fits,
        **options,
    )
    assert list(tmp_path.iterdir()) == []


def test_an_error_after_the_first_block_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "BLOCK_SENTENCES", 10)

    def large(_, texts, *__):
        rows = np.ones((len(texts), 3), np.float32)
        return rows * 1e5 if TEXTS[20] in texts else rows

    monkeypatch.setattr(Model, "embed", large)
    refused("^precision", encode, TEXTS, precision="float16", output=tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []


def test_options_without_an_effect_are_refused(run):
    others: dict[str, Any] = {"layers": "1", "dtype": "bfloat16", "template": "a {}"}
    for name, value in others.items():
        encoder = EncoderOptions(**{name: value})
        refused("encoder: .*a path alone", encode, TEXTS, model=run, encoder=encoder)
    for precision in {*PRECISIONS} - {"int8", "uint8", "bfloat16"}:
        options = {"precision": precision, "ranges": np.zeros((2, 128))}
        refused("ranges: .*int8 or uint8", encode, TEXTS, **options)
