"""Which programs compute an exported folder's vectors, against a reader of what those read."""

import shutil
from pathlib import Path

import pytest
from torch import nn

from encoders.tiny import SENTENCES, add_modules, write_tiny
from exports.models import CHAINS, FLOW, TEXTS, fit_map, largest_difference
from exports.one_dense import served
from flowbert.cli import main
from flowbert.encoders import SentenceEncoder, load_encoder
from flowbert.exports import SentenceTransformers, export, served_by
from flowbert.exports.served import check_servable, parts_left_out
from flowbert.model import Model
from helpers import refused

sentence_transformers = pytest.importorskip(
    "sentence_transformers", reason="needs sentence-transformers"
)
pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

TOLERANCE = SentenceTransformers.tolerance
LONG = " ".join(["cat", "dog"] * 8)  # is cut
ALL = "sentence-transformers, text-embeddings-inference, vLLM and llama.cpp"
ONE_DENSE = (
    "sentence-transformers, text-embeddings-inference and vLLM; llama.cpp would skip "
    "2_Dense"
)
LEFT_OUT = (
    "sentence-transformers; text-embeddings-inference, vLLM and llama.cpp would skip "
)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = write_tiny(tmp_path_factory.mktemp("tiny") / "bert")
    return SentenceEncoder(folder, max_length=9)


def made(encoder, name):
    if name is None:
        return Model(encoder)
    return Model(encoder, fit_map(name, encoder.encode(TEXTS)))


def is_served(model, folder, texts):
    """Whether those who read one Dense compute the model's vectors."""
    try:
        vectors = served(folder, list(texts))
    except RuntimeError:  # a Dense for vectors of another size
        return False
    return largest_difference(vectors, model.encode(texts)) <= TOLERANCE


def check(model, folder):
    """What is said of a folder is true; returns it."""
    folder.mkdir()
    SentenceTransformers().write(model, folder)
    left_out = parts_left_out(folder)
    assert is_served(model, folder, [*SENTENCES, LONG]) == (not left_out)
    said = served_by(folder)
    assert (LEFT_OUT in said) == bool(left_out)
    if left_out:
        refused(r"^servable: .*whitening$", check_servable, folder)
    else:
        check_servable(folder)
    return said


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_an_affine_map_is_one_dense(pooling, bert, tmp_path):
    encoder = bert.variant(pooling=pooling)
    assert check(made(encoder, None), tmp_path / "none") == ALL
    assert check(made(encoder, CHAINS[0]), tmp_path / "chain") == ONE_DENSE


def test_the_last_token_is_that_of_some_decoders(bert, tmp_path):
    export(made(bert.variant(pooling="last_token"), None), tmp_path / "to")
    assert served_by(tmp_path / "to").endswith("the last token of some decoders")
    refused(r"servable: .*would skip 1_Pooling", check_servable, tmp_path / "to")


@pytest.mark.parametrize(
    ("options", "name", "parts"),
    [
        ({"layers": "first_last"}, "zca", "1_WeightedLayerPooling"),
        ({"pooling": "zipf"}, "zca", "1_WordWeights"),
        ({"pooling": "max"}, "zca", "1_Pooling"),
        ({}, FLOW, "2_MapModule"),
        ({"template": "the big {}"}, "zca", "the prompt 'the big '"),
    ],
)
def test_other_layers_poolings_maps_and_prompts_are_left_out(
    options, name, parts, bert, tmp_path
):
    encoder = SentenceEncoder(bert.path, max_length=9, **options)
    assert check(made(encoder, name), tmp_path / "to") == f"{LEFT_OUT}{parts}"


IDENTITY, TANH = nn.Identity(), nn.Tanh()


@pytest.mark.parametrize(
    ("activations", "normalized", "name", "said"),
    [
        ((TANH,), False, None, ONE_DENSE),
        ((IDENTITY,), True, None, ONE_DENSE),
        ((IDENTITY, IDENTITY), False, "whitening-4", ONE_DENSE),
        ((TANH,), False, "whitening-4", f"{LEFT_OUT}3_Dense"),
        ((IDENTITY,), True, "whitening-4", f"{LEFT_OUT}4_Dense"),
    ],
)
def test_modules_of_others_are_joined_to_the_map_where_they_are_affine(
    activations, normalized, name, said, bert, tmp_path
):
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    modules = [Transformer(bert.path, max_seq_length=9), Pooling(16, "mean")]
    sizes = (16, 10, 8)
    for number, activation in enumerate(activations):
        size, bias = sizes[number], number == 0
        modules.append(Dense(size, sizes[number + 1], bias, activation))
    if normalized:
        modules.append(Normalize())
    opened = sentence_transformers.SentenceTransformer(modules=modules)
    opened.save(str(tmp_path / "own"), create_model_card=False)
    assert check(made(load_encoder(tmp_path / "own"), name), tmp_path / "to") == said


def test_lower_case_that_only_sentence_transformers_knows(bert, tmp_path):
    SentenceTransformers().write(Model(bert), tmp_path)
    settings = tmp_path / "sentence_bert_config.json"
    text = settings.read_text().replace("{", '{"do_lower_case": true,', 1)
    settings.write_text(text)
    assert parts_left_out(tmp_path) == ["do_lower_case"]


def test_settings_that_only_sentence_transformers_computes(bert, tmp_path):
    folder = Path(shutil.copytree(bert.path, tmp_path / "own"))
    length = {"text": {"max_length": 4}}
    add_modules(folder, ("Pooling", {}), processing_kwargs=length)
    said = check(Model(load_encoder(folder)), tmp_path / "to")
    assert said == f"{LEFT_OUT}processing_kwargs in sentence_bert_config.json"


# ---------------------------------------------------------------------------- by export


def test_the_command_says_it_and_refuses_what_is_not_served(bert, tmp_path, capsys):
    for name in ("whitening-4", CHAINS[1]):
        made(bert, name).save(tmp_path / "run" / "model")
    line = ["export", str(tmp_path / "run"), "--servable", "--to", str(tmp_path / "to")]
    with pytest.raises(SystemExit, match="2"):
        main([*line, "--method", "flow"])
    *_, message = capsys.readouterr().err.splitlines()  # after the bar of transformers
    assert "error: --servable: received a model of which" in message
    assert not (tmp_path / "to").exists()
    main([*line, "--method", "whitening"])
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"computed by {ONE_DENSE}"
    assert f"Computed by {ONE_DENSE}." in (tmp_path / "to" / "README.md").read_text()
    model = Model.load(tmp_path / "run", "whitening")
    assert is_served(model, tmp_path / "to", SENTENCES)


def test_folders_of_other_formats(tmp_path):
    assert served_by(tmp_path) == "the code in its README.md"
    (tmp_path / "model.onnx").touch()
    assert served_by(tmp_path) == "ONNX Runtime"
    refused(r"^servable: .*another format", check_servable, tmp_path)
