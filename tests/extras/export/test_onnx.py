"""The graph gives the model's vectors, whatever the size of a batch."""

from typing import Any

import numpy as np
import pytest
import torch

from encoders.tiny import TOLERANCE, tiny_encoder, write_tiny
from extras.export.models import (
    FLOW,
    TEXTS,
    largest_difference,
    model_of,
)
from flowbert.encoders import SentenceEncoder
from flowbert.extras.export import ONNX, export
from flowbert.extras.views import ViewsEncoder
from flowbert.extras.word_vectors import WordVectors
from flowbert.model import Model
from helpers import refused

for _name in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(_name, reason=f"needs {_name}")

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")
rotary = pytest.mark.skipif(
    torch.__version__.startswith("2.6."),
    reason="torch 2.6 exports no rotary positions",
)


ONE_BLOCK = {"num_hidden_layers": 1}


def check(model, folder):
    ONNX().write(model, folder)
    expected = model.encode(TEXTS[:20])
    # The encoder's rounding, by maps that stretch no direction more than tenfold.
    bound = 10 * TOLERANCE * float(np.abs(expected).max())
    for size in (1, 3, 20):
        vectors = ONNX().encode(folder, TEXTS[:20], size)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=bound)


def test_layers_pooling_and_a_chain_with_a_flow(tmp_path):
    encoder = tiny_encoder(sizes=ONE_BLOCK, layers="first_last", max_length=9)
    chain = "whitening-6:shrinkage=0.1+flow:levels=1:depth=1:width=4:init=whitening"
    check(model_of(encoder, chain), tmp_path)


@rotary
@pytest.mark.slow
@pytest.mark.parametrize("template", ["the {} in {} mat", "prompteol"])
def test_views_of_a_template(template, tmp_path):
    write_tiny(tmp_path / "llama", "llama")
    views = [
        {"layers": "last", "pooling": "last_token", "template": template},
        {"layers": 1, "pooling": "zipf", "template": template},
    ]
    encoder = ViewsEncoder(str(tmp_path / "llama"), views=views, max_length=20)
    name = (
        "views:maps=[nulling-1+whitening-4:shrinkage=0.5|centering]:weights=[1|0.5]+raw"
    )
    check(model_of(encoder, name), tmp_path)
    check(Model(encoder.views[1]), tmp_path)
    sink = SentenceEncoder(tmp_path / "llama", layers=1, sink_token="[MASK]")
    check(Model(sink), tmp_path)


@pytest.mark.parametrize("template", ["the {} in [MASK]", "the {} in"])
@pytest.mark.parametrize("form", ["onnx", "sentence-transformers"])
def test_special_tokens_in_a_sentence(template, form, tmp_path):
    """They are text within a template that has some; texts of the verification have them."""
    encoder = tiny_encoder(sizes=ONE_BLOCK, template=template, pooling="last_token")
    export(Model(encoder), tmp_path / "to", format=form)


@pytest.mark.parametrize(
    "view", [{"template": "the {} in"}, {"max_length": 30}, {"sink_token": "the"}]
)
def test_views_of_other_tokens_are_refused(view, tmp_path):
    """A graph has one input: the tokens of one tokenizer.json, cut once."""
    write_tiny(tmp_path / "llama", "llama")
    mixed = ViewsEncoder(str(tmp_path / "llama"), views=[{"layers": 1}, view])
    message = "expected one template, sink_token and max_length"
    refused(message, ONNX().write, Model(mixed), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "pooling", "name"),
    [
        ("roberta", "max", "whitening-6:shrinkage=0.1"),
        pytest.param("modernbert", "idf", f"{FLOW}:coupling=affine", marks=rotary),
        ("electra", "last_token", None),
    ],
)
def test_networks_poolings_and_couplings(kind, pooling, name, tmp_path):
    options: dict[str, Any] = {"pooling": pooling, "count_over": TEXTS}
    encoder = tiny_encoder(kind, ONE_BLOCK, **options, max_length=9)
    check(model_of(encoder, name), tmp_path)


@pytest.mark.slow
def test_the_snippet_of_its_page(tmp_path):
    encoder = SentenceEncoder("builtin-sample", layers="first_last", max_length=16)
    model = model_of(encoder, "whitening-32:shrinkage=0.1")
    folder = export(model, tmp_path / "name", format="onnx")
    page = (folder / "README.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code.replace('"name"', repr(str(folder))), names)
    expected = model.encode(["A man rides.", "Nobody rides."])
    assert largest_difference(names["embeddings"], expected) < 1e-4


def test_what_no_graph_computes_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text("cat 1 2\ndog 3 4\n")
    words = WordVectors(str(tmp_path / "words.txt"))
    with_prompt = SentenceEncoder("builtin-sample", template="query: {}")
    for encoder, part in ((words, "words.txt"), (with_prompt, "'query: {}'")):
        refused(
            f"^format: received onnx for .*{part}",
            export,
            Model(encoder),
            tmp_path / "to",
            format="onnx",
        )
        assert [path.name for path in tmp_path.iterdir()] == ["words.txt"]


def test_a_network_that_the_exporter_does_not_know(tmp_path, monkeypatch):
    def fail(*_args, **_options):
        raise torch.onnx.OnnxExporterError("no such operation\nmore")

    monkeypatch.setattr(torch.onnx, "export", fail)
    refused(
        "received onnx for BertModel",
        export,
        Model(tiny_encoder()),
        tmp_path / "to",
        format="onnx",
    )
    assert not list(tmp_path.iterdir())
