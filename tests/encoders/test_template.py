"""Templates around sentences, and attention sinks, on small random decoders of each kind."""

from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, normalizers
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Metaspace
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from encoders.tiny import (
    SENTENCES,
    assert_near,
    tiny_network,
    word_tokenizer,
    write_tiny,
)
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoders
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.template import TEMPLATES, Template
from flowbert.extras.export import export
from flowbert.extras.export.plain_encoder import (
    add_to_tokenizer,
    with_template_in_tokenizer,
)
from flowbert.maps import make_map
from flowbert.model import Model
from helpers import refused, warned

DECODERS = (
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt2",
    "llama",
    "mistral",
    "opt",
    "openai-gpt",  # without keys and values
    "qwen2",
    "qwen3",
)
KINDS = [*DECODERS, "bert"]
SIZES = {
    **{kind: {"head_dim": 8} for kind in ("gemma", "gemma2", "gemma3_text")},
    "opt": {"word_embed_proj_dim": 16, "ffn_dim": 32},
}
AROUND = 'the big "{}" in a mat'  # quotes are unknown words


def encoder_of(kind, sizes=None, **options):
    tokenizer = word_tokenizer(decoder=kind != "bert")
    if kind != "bert":
        tokenizer.pad_token = tokenizer.eos_token  # masks decide, not ids
    sizes = SIZES.get(kind, {}) if sizes is None else sizes
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
    span = last.read(pooling="mean", layers=2)
    few = [encoder.encode(SENTENCES) for encoder in (last, span)]
    read = [encoder.encode(SENTENCES * 4) for encoder in (last, span)]
    assert_near(np.array(read)[:, : len(SENTENCES)], few)
    assert last.backbone.findings.causal == (kind != "bert")
    # Their first tokens are computed once, where the network can go on from them. Some of
    # transformers 4.51 give no cache that it can.
    old = version("transformers") < "4.52" and kind in (
        "gpt2",
        "opt",
        "gemma2",
        "gemma3_text",
    )
    continues = not old and kind not in ("bert", "openai-gpt")
    assert last.backbone.findings.continues == continues
    for number, sentence in enumerate(SENTENCES):
        text = AROUND.replace("{}", sentence)
        assert_near(read[0][number], states_of(last, text, 3)[-1])
        start = special + 3
        words = states_of(last, text, 2)[start : start + len(sentence.split())]
        assert_near(read[1][number], words.mean(0))


def test_positions_are_not_stretched_to_the_length_of_a_text():
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    name = "rope_scaling" if version("transformers") < "5" else "rope_parameters"
    sizes = {name: rope, "num_key_value_heads": 1, "max_position_embeddings": 16}
    assert encoder_of("llama", sizes, max_length=0).max_length == 16


def test_a_repeated_sentence_is_pooled_the_second_time():
    echo = encoder_of("llama", layers=2, template="the {} in {}")
    (vector,) = echo.encode(["a dog runs"])
    states = states_of(echo, "the a dog runs in a dog runs", 2)
    assert_near(vector, states[5:].mean(0))


def test_truncation_cuts_the_sentence_and_not_the_template():
    long = " ".join(["dog runs"] * 40)
    encoder = encoder_of("llama", pooling="last_token", template=AROUND, max_length=12)
    with warned("1 of 2 sentences were cut to 12 tokens"):
        cut = encoder.encode([long, "dog runs dog runs dog"])
    (row,) = encoder.tokenization.rows([long])
    assert len(row["input_ids"]) == 12
    assert_near(cut[0], cut[1])
    refused(r"^max_length: received 7; expected at least 8", encoder.read, max_length=7)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("means in one word", "received 'means in one word'; expected prompteol, "),
        ("{} a {} b {}", "expected prompteol"),
    ],
)
def test_mistakes(template, message):
    refused(f"^template: .*{message}", encoder_of, "llama", template=template)


def merging_tokenizer(kind):
    """Bytes as GPT-2's, or letters as Llama 2's, with a mark for a space also before a text."""
    mark, letters = "Ġ", {*ByteLevel.alphabet()}
    if kind != "bytes":
        letters = {*"".join(TEMPLATES.values()), *"abcdefghijklmnopqrstuvwxyz()▁"}
        mark = "▁"
    tokens = [*sorted(letters), f"{mark}a", "<s>", "<unk>"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocabulary, [(mark, "a")], unk_token="<unk>"))
    if kind == "bytes":
        tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    elif kind == "prepend":
        steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        tokenizer.normalizer = normalizers.Sequence(steps)
    else:
        tokenizer.pre_tokenizer = Metaspace(prepend_scheme=kind, split=False)
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


@pytest.mark.parametrize("kind", ["bytes", "prepend", "first", "always"])
@pytest.mark.parametrize("text", ["prompteol", "echo", "it: {} (end)", '"{}"'])
@pytest.mark.parametrize("side", ["right", "left"])
def test_tokens_are_those_of_the_whole_text(kind, text, side):
    """As the tokenizer splits them together, and as a saved tokenizer.json does."""
    tokenizer = merging_tokenizer(kind)
    tokenizer.truncation_side = side
    network = tiny_network("llama", vocab_size=300, max_position_embeddings=1000)
    backbone = Backbone(network, tokenizer)
    tokenizer.pad_token = "<s>"
    encoder = SentenceEncoder(backbone, template=text, max_length=1000, layers=1)
    sentence = "a man runs"
    (row,) = encoder.tokenization.rows([sentence])
    whole = tokenizer(encoder.template.replace("{}", sentence))["input_ids"]
    assert row["input_ids"] == whole
    assert pooled_text(tokenizer, row) == sentence
    assert encoder.tokenization.template_tokens is not None
    if kind == "bytes":
        template = Template.make(encoder.template, tokenizer)
        backend = add_to_tokenizer(template, tokenizer).backend_tokenizer
        saved = Tokenizer.from_str(backend.to_str())
        assert saved.encode(template.space + sentence).ids == whole
    short = encoder.read(max_length=encoder.tokenization.template_tokens.fixed + 8)
    (cut,) = short.tokenization.rows([sentence])
    assert len(cut["input_ids"]) <= short.max_length
    part = pooled_text(tokenizer, cut)
    assert len(part) > 2
    assert sentence.endswith(part) if side == "left" else sentence.startswith(part)


CHAT = (
    "{% for message in messages %}<s>user\n{{ message['content'] }}(end)\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


@pytest.mark.parametrize("kind", ["bytes", "prepend", "first", "always"])
def test_tokens_of_a_chat_template_are_those_of_transformers(kind):
    tokenizer = merging_tokenizer(kind)
    tokenizer.add_special_tokens({"eos_token": "(end)", "pad_token": "<s>"})
    tokenizer.chat_template = CHAT

    def chat(content, **options):
        messages = [{"role": "user", "content": content}]
        return tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, **options
        )

    network = tiny_network("llama", vocab_size=300, max_position_embeddings=1000)
    encoder = SentenceEncoder(Backbone(network, tokenizer), template='chat:it: "{}"')
    assert encoder.template == chat('it: "{}"', tokenize=False) + '"'
    assert str(encoder.pooling) == "last_token"
    found, injected = encoder.tokenization.rows(["a man runs", "a (end) man"])
    whole = chat('it: "a man runs"', tokenize=True, return_dict=True)["input_ids"]
    assert found["input_ids"][: len(whole)] == whole
    assert tokenizer.decode(found["input_ids"][len(whole) :]) == '"'
    # The sentence ends no message.
    end = tokenizer.eos_token_id
    assert injected["input_ids"].count(end) == found["input_ids"].count(end) == 1
    assert pooled_text(tokenizer, injected) == "a (end) man"


SWITCHES = (
    "{% if enable_thinking is false %}<s>{% endif %}{{ strftime_now('%Y') }} "
    "{% for message in messages %}{{ message['content'] }}{% endfor %}:"
)


def test_a_chat_is_the_same_tomorrow_and_saved_as_text(tmp_path):
    path = write_tiny(tmp_path / "llama", "llama")
    missing = "^template: received chat; expected a network whose chat template"
    refused(missing, SentenceEncoder, path, template="chat")
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.chat_template = SWITCHES
    tokenizer.save_pretrained(path)
    encoder = SentenceEncoder(path, template="chat")
    question = 'This sentence : "{}" means in one word:'
    assert encoder.template == f'<s>26 Jul 2024 {question}:"'
    assert encoder.columns()["template"] == "chat"
    encoder.save(tmp_path / "saved")
    assert SentenceEncoder(tmp_path / "saved").reading == encoder.reading
    options = EncoderOptions(str(path), template="prompteol,chat,chat-examples")
    _, same, after_examples = open_encoders(options)
    assert same.identity == encoder.identity
    turn = question.format("A man is slicing a tomato.") + '"Cooking"'
    text = after_examples.describe()["template"]
    assert text.count(turn) == 1
    assert text.endswith(f'"Winter"{question}:"')
    assert after_examples.columns()["template"] == "chat-examples"


def pooled_text(tokenizer, row):
    """Text of the tokens that are pooled."""
    pooled = np.array(row["input_ids"])[np.array(row["special_tokens_mask"]) == 0]
    text = "".join(tokenizer.convert_ids_to_tokens(pooled.tolist()))
    return text.replace("▁", " ").replace("Ġ", " ").strip()


def with_start(encoder, text, layer, start="[SEP]"):
    """Hidden states of a text behind a token in front of it."""
    return states_of(encoder, f"{start} {text}", layer)[1:]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("layer", [1, 3])
def test_a_sink_is_in_front_of_a_decoder_and_not_pooled(kind, layer):
    encoder = encoder_of(kind, layers=layer, pooling="mean")
    assert encoder.sink_token == "[SEP]"  # no <|endoftext|> and no BOS
    expected = [with_start(encoder, text, layer).mean(0) for text in SENTENCES]
    assert_near(encoder.encode(SENTENCES), expected)
    last = encoder.read(pooling="last_token")
    expected = [with_start(encoder, text, layer)[-1] for text in SENTENCES]
    assert_near(last.encode(SENTENCES), expected)
    prompted = encoder.read(template="the big {}")
    expected = [with_start(encoder, f"the big {x}", layer).mean(0) for x in SENTENCES]
    assert_near(prompted.encode(SENTENCES * 4)[:5], expected)
    plain = encoder.read(sink_token="")
    expected = [states_of(encoder, text, layer).mean(0) for text in SENTENCES]
    assert_near(plain.encode(SENTENCES), expected)
    assert len({each.backbone_key for each in (encoder, last, prompted, plain)}) == 3
    assert plain.columns() != encoder.columns()


def test_a_sink_that_the_tokenizer_writes_is_not_written_twice():
    encoder = encoder_of("llama", layers=1, pooling="mean", sink_token="the")
    own = with_template_in_tokenizer(encoder)
    assert own.sink_token == "the"
    assert (
        own.backbone.tokenizer("dog")["input_ids"]
        == next(own.tokenization.rows(["dog"]))["input_ids"]
    )
    np.testing.assert_array_equal(own.encode(SENTENCES), encoder.encode(SENTENCES))
    backbone = Backbone(encoder.backbone.network, own.backbone.tokenizer)
    assert encoder_of("bert").sink_token == ""
    assert SentenceEncoder(backbone).sink_token == "[SEP]"  # "the" is not a special one
    backbone.tokenizer.add_special_tokens({"bos_token": "the"})
    assert SentenceEncoder(backbone).sink_token == "the"
    refused(
        "^sink_token: received 'x'; expected a token",
        encoder_of,
        "gpt2",
        sink_token="x",
    )


EXPORTED = [
    *((kind, "last_token", AROUND, None) for kind in ("llama", "bert")),
    *(("llama", pooling, "", "[MASK]") for pooling in ("zipf", "last_token")),
    ("llama", "mean", "the big {}", "[MASK]"),
]


@pytest.mark.filterwarnings("ignore:max_length. .* were cut")
@pytest.mark.parametrize(("kind", "pooling", "template", "sink"), EXPORTED)
def test_an_exported_folder_has_template_and_sink_in_its_tokenizer(
    kind, pooling, template, sink, tmp_path
):
    """Computed by sentence-transformers alone, behind a map of a lower layer."""
    options: dict[str, Any] = {"layers": 1, "pooling": pooling, "template": template}
    path = write_tiny(tmp_path / kind, kind)
    # Long texts are cut on the side of the tokenizer.
    AutoTokenizer.from_pretrained(path, truncation_side="left").save_pretrained(path)
    encoder = SentenceEncoder(path, **options, sink_token=sink, max_length=16)
    rows = encoder.encode(SENTENCES)
    model = Model(encoder, make_map("whitening:shrinkage=0.5").fit(rows))
    export(model, tmp_path / "to")
    stock = SentenceTransformer(str(tmp_path / "to"), device="cpu")
    texts = [*SENTENCES, "mat cat dog " * 4 + "a cat sleeps on the small dog"]
    expected = model.encode(texts)
    assert_near(stock.encode(texts), expected)
    assert_near(Model.load(tmp_path / "to").encode(texts), expected)
    other, part = (
        ("mean", ", which leaves out the temp") if template == AROUND else ("max", "")
    )
    unfit = Model(encoder.read(pooling=other))
    refused(f"pooling {other}{part}", export, unfit, tmp_path / "other")
