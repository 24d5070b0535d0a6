"""Templates around sentences, and attention sinks, on small random decoders of each kind."""

from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from transformers import CONFIG_MAPPING, PreTrainedTokenizerFast

from encoders.tiny import SENTENCES, TOLERANCE, tiny_network, word_tokenizer, write_tiny
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.sanity import is_causal
from flowbert.encoders.template import TEMPLATES, Template, resolve_template
from flowbert.errors import FlowbertWarning
from flowbert.exports import export
from flowbert.maps import make_map
from flowbert.model import Model
from helpers import refused

KINDS = ["llama", "qwen3", "gpt2", "gemma", "opt", "mistral", "bert"]
AROUND = 'the big "{}" in a mat'  # quotes are unknown words


def encoder_of(kind, **options):
    tokenizer = word_tokenizer(decoder=kind != "bert")
    if kind != "bert":
        tokenizer.pad_token = tokenizer.eos_token  # masks decide, not ids
    sizes = {"head_dim": 8, "num_key_value_heads": 1} if kind == "gemma" else {}
    sizes |= {"word_embed_proj_dim": 16, "ffn_dim": 32} if kind == "opt" else {}
    return SentenceEncoder(Backbone(tiny_network(kind, **sizes), tokenizer), **options)


def states_of(encoder, text, layer):
    """Hidden states of a text alone, ``(T, D)``, by transformers."""
    features = encoder.backbone.tokenizer([text], return_tensors="pt")
    names = [name for name in features if name in encoder.backbone.inputs]
    inputs = {name: features[name] for name in names}
    with torch.no_grad():
        network = encoder.backbone.network
        output = network(**inputs, output_hidden_states=True)
    return output.hidden_states[layer][0].numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_token_is_that_of_the_template_and_means_are_of_the_sentence(kind):
    special = 1 if kind == "bert" else 0
    last = encoder_of(kind, layers="last", pooling="last_token", template=AROUND)
    span = last.variant(pooling="mean", layers=2)
    few = [encoder.encode(SENTENCES) for encoder in (last, span)]
    assert last.backbone.reads_prefixes is None
    read = [encoder.encode(SENTENCES * 4) for encoder in (last, span)]
    np.testing.assert_allclose(
        np.array(read)[:, : len(SENTENCES)], few, rtol=0, atol=TOLERANCE
    )
    assert is_causal(last.backbone) == (kind != "bert")
    # Their first tokens are computed once, where the network can go on from them. GPT-2 and OPT of
    # transformers 4.51 give no cache that it can.
    old = version("transformers") < "4.52" and kind in ("gpt2", "opt")
    assert last.backbone.reads_prefixes == (kind != "bert" and not old)
    for number, sentence in enumerate(SENTENCES):
        text = AROUND.replace("{}", sentence)
        np.testing.assert_allclose(
            read[0][number], states_of(last, text, 3)[-1], rtol=0, atol=TOLERANCE
        )
        start = special + 3
        words = states_of(last, text, 2)[start : start + len(sentence.split())]
        np.testing.assert_allclose(
            read[1][number], words.mean(0), rtol=0, atol=TOLERANCE
        )


HYBRIDS: dict[str, dict[str, Any]] = {
    "lfm2": {"layer_types": ["conv", "full_attention", "conv"]},
    "falcon_h1": {
        "mamba_n_heads": 4,
        "mamba_d_head": 8,
        "mamba_d_ssm": 32,
        "head_dim": 8,
        "mamba_d_state": 8,
    },
}


@pytest.mark.parametrize("kind", HYBRIDS)
def test_recurrent_blocks_read_the_whole_template(kind):
    if kind not in CONFIG_MAPPING:
        pytest.skip("transformers does not have it")
    network = tiny_network(kind, num_key_value_heads=1, **HYBRIDS[kind])
    tokenizer = word_tokenizer(decoder=True)
    tokenizer.pad_token = tokenizer.eos_token
    encoder = SentenceEncoder(Backbone(network, tokenizer), template=AROUND)
    found = encoder.encode(SENTENCES * 4)[: len(SENTENCES)]
    np.testing.assert_allclose(found, encoder.encode(SENTENCES), atol=TOLERANCE)
    assert encoder.backbone.reads_prefixes is False


def test_positions_that_follow_the_longest_text():
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    name = "rope_scaling" if version("transformers") < "5" else "rope_parameters"
    sizes = {name: rope, "num_key_value_heads": 1, "max_position_embeddings": 16}
    tokenizer = word_tokenizer(decoder=True)
    tokenizer.pad_token = tokenizer.eos_token
    backbone = Backbone(tiny_network("llama", **sizes), tokenizer)
    encoder = SentenceEncoder(backbone, template=AROUND, max_length=0)
    texts = ["the cat sleeps " * count for count in (1, 5, 8, 12)]
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    found = encoder.encode(texts * 4)[: len(texts)]
    np.testing.assert_allclose(found, alone, atol=TOLERANCE)


def test_a_template_that_ends_in_its_slot_is_a_prompt_that_is_pooled():
    prompted = encoder_of("bert", template="the big {}")
    texts = [f"the big {sentence}" for sentence in SENTENCES]
    plain = encoder_of("bert").encode(texts)
    np.testing.assert_array_equal(prompted.encode(SENTENCES), plain)


def test_a_repeated_sentence_is_pooled_the_second_time():
    echo = encoder_of("llama", layers=2, template="the {} in {}")
    (vector,) = echo.encode(["a dog runs"])
    states = states_of(echo, "the a dog runs in a dog runs", 2)
    np.testing.assert_allclose(vector, states[5:].mean(0), rtol=0, atol=TOLERANCE)


def test_truncation_cuts_the_sentence_and_not_the_template():
    long = " ".join(["dog runs"] * 40)
    encoder = encoder_of("llama", pooling="last_token", template=AROUND, max_length=12)
    with pytest.warns(FlowbertWarning, match="truncated to 12 tokens"):
        cut = encoder.encode([long])
    (row,) = encoder.tokens([long])
    assert len(row["input_ids"]) == 12
    np.testing.assert_allclose(
        cut, encoder.encode(["dog runs dog runs dog"]), rtol=0, atol=TOLERANCE
    )
    refused(
        r"^max_length: received 7; expected at least 8", encoder.variant, max_length=7
    )


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("means in one word", "received 'means in one word'; expected prompteol, "),
        ("{} a {} b {}", "expected prompteol"),
        ("the [SEP] {} a", r"text without '\[SEP\]', a special token"),
    ],
)
def test_mistakes(template, message):
    refused(f"^template: .*{message}", encoder_of, "llama", template=template)


def test_a_published_template_has_a_pooling():
    usual = encoder_of("llama")
    expected = dict.fromkeys(TEMPLATES, "last_token") | {"echo": "mean", AROUND: "mean"}
    for template, pooling in expected.items():
        made = encoder_of("llama", template=template), usual.variant(template=template)
        assert [str(encoder.pooling) for encoder in made] == [pooling, pooling]
    explicit = encoder_of("llama", template="prompteol", pooling="max")
    assert str(explicit.pooling) == "max"
    assert str(explicit.variant(layers=1).pooling) == "max"


def byte_tokenizer():
    """Bytes with merges of a letter and the space before it, as GPT-2's."""
    letters = sorted(ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    vocabulary |= {"Ġa": len(letters), "<s>": len(letters) + 1}
    tokenizer = Tokenizer(BPE(vocabulary, [("Ġ", "a")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", len(letters) + 1)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


@pytest.mark.parametrize("text", [*TEMPLATES, "it: {} (end)", '"{}"'])
def test_tokens_are_those_of_the_whole_text(text):
    """As the tokenizer splits them together, and as a saved tokenizer.json does."""
    tokenizer = byte_tokenizer()
    template = Template.make(resolve_template(text), tokenizer)
    sentence = "a man runs"
    alone = tokenizer(template.space + sentence, add_special_tokens=False)["input_ids"]
    wrapped = template.wrap(alone)
    whole = tokenizer(template.text.replace("{}", sentence))["input_ids"]
    assert wrapped["input_ids"] == whole
    shown = np.array(wrapped["input_ids"])[
        np.array(wrapped["special_tokens_mask"]) == 0
    ]
    assert shown.tolist() == alone
    saved = Tokenizer.from_str(template.add_to(tokenizer).backend_tokenizer.to_str())
    assert saved.encode(template.space + sentence).ids == whole


def enlarge_first(_module, _inputs, output):
    return torch.cat([output[:, :1] * 1e4, output[:, 1:]], dim=1)


def test_an_attention_sink_is_left_out_of_poolings_over_tokens():
    """The first token has a large norm in all layers but the last, after the final norm."""
    backbone = encoder_of("llama").backbone
    embedding = backbone.network.get_submodule("embed_tokens")
    embedding.register_forward_hook(enlarge_first)
    backbone.findings = None
    mean = SentenceEncoder(backbone, layers=1, pooling="mean")
    assert mean.describe()["skip_first"] is True
    texts = [text for text in SENTENCES if " " in text]
    expected = [states_of(mean, text, 1)[1:].mean(0) for text in texts]
    np.testing.assert_allclose(mean.encode(texts), expected, rtol=0, atol=TOLERANCE)
    # A sentence of one token keeps it; other layers and poolings read all tokens.
    (single,) = mean.encode(["dog"])
    np.testing.assert_allclose(single, states_of(mean, "dog", 1)[0], rtol=1e-4)
    for other in ({"layers": "last"}, {"pooling": "last_token"}):
        assert not mean.variant(**other).skip_first  # type: ignore[arg-type]
    assert mean.variant(pooling="max").skip_first
    # In front of the sentence is the template.
    assert not mean.variant(template=AROUND, skip_first=True).skip_first


@pytest.mark.parametrize("left_out", [True, False])
def test_whether_the_first_token_is_left_out_is_saved(left_out, tmp_path, monkeypatch):
    """Also where the weights do not say so, as after a training."""
    monkeypatch.setattr(
        "flowbert.encoders.encoder.first_is_sink", lambda *_: not left_out
    )
    path = write_tiny(tmp_path / "llama", "llama")
    encoder = SentenceEncoder(path, layers=1, pooling="mean", skip_first=left_out)
    expected = encoder.encode(SENTENCES)
    other = encoder.variant(skip_first=not left_out)
    assert not np.allclose(expected, other.encode(SENTENCES))
    encoder.save(tmp_path / "trained")
    Model(encoder).save(tmp_path / "run" / "model")
    again = SentenceEncoder(tmp_path / "trained")
    for loaded in (again, again.variant(), Model.load(tmp_path / "run").encoder):
        np.testing.assert_array_equal(loaded.encode(SENTENCES), expected)


def test_unit_tokens():
    encoder = encoder_of("llama", layers=2, pooling="mean:unit=true")
    (vector,) = encoder.encode(["a dog runs"])
    states = states_of(encoder, "a dog runs", 2)
    unit = states / np.linalg.norm(states, axis=1, keepdims=True)
    np.testing.assert_allclose(vector, unit.mean(0), rtol=0, atol=TOLERANCE)
    assert not encoder.pooling.linear


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2", "bert"])
def test_an_exported_folder_has_the_template_in_its_tokenizer(kind, tmp_path):
    """Computed by sentence-transformers alone, behind a map of a lower layer."""
    library = pytest.importorskip("sentence_transformers")
    encoder = SentenceEncoder(
        write_tiny(tmp_path / kind, kind),
        layers=1,
        pooling="last_token",
        template=AROUND,
    )
    rows = encoder.encode(SENTENCES)
    model = Model(encoder, make_map("whitening:shrinkage=0.5").fit(rows))
    export(model, tmp_path / "to")
    stock = library.SentenceTransformer(str(tmp_path / "to"), device="cpu")
    assert stock[0].auto_model.config.num_hidden_layers == 2  # of 3 blocks
    expected = model.encode(SENTENCES)
    np.testing.assert_allclose(stock.encode(SENTENCES), expected, atol=TOLERANCE)
    reopened = Model.load(tmp_path / "to").encode(SENTENCES)
    np.testing.assert_allclose(reopened, expected, atol=TOLERANCE)
    mean = Model(encoder.variant(pooling="mean"))
    refused(
        "the pooling mean, which leaves out the template",
        export,
        mean,
        tmp_path / "mean",
    )
