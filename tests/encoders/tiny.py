"""Random networks of a few weights with a tokenizer of words, and what they are compared with."""

import json
from functools import cache
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone

WORDS = [
    "a",
    "the",
    "cat",
    "dog",
    "bird",
    "runs",
    "sleeps",
    "sings",
    "on",
    "in",
    "mat",
    "not",
    "big",
    "small",
    "été",
    "東京",
]
SENTENCES = [
    "the cat sleeps on the mat",
    "dog",
    "a small bird sings not",
    "été in 東京",
    "the the a a the big big dog runs on the mat in the mat",
]
DENSE = ("Dense", {"in_features": 16, "out_features": 6, "bias": False})
"""A module of sentence-transformers after the pooling."""
TOLERANCE = 5e-4
"""Largest difference by rounding between two orders of summation in these networks.

Sums of n terms differ by at most 2 n u times the sum of absolute values (Higham, Accuracy and
Stability of Numerical Algorithms, 2002, section 4.2), u = 2 ** -24. Here n <= 64, about 8 sums
follow each other, and layer norms amplify errors by less than 10: 2 * 64 * 8 * 10 * u = 6e-4.
"""


def assert_near(found, expected):
    """Vectors are equal up to that difference."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


_SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 150,
}
_ONE_KEY = _SIZES | {"num_key_value_heads": 1}
_NO_TYPES = _SIZES | {"type_vocab_size": 1}
DECODERS = ("gpt2", "llama", "mistral", "qwen3")
CONFIGS: dict[str, dict[str, Any]] = {
    "albert": _SIZES | {"embedding_size": 8, "hidden_dropout_prob": 0.1},
    "bert": _SIZES,
    "camembert": _NO_TYPES,
    "deberta-v2": _SIZES | {"relative_attention": True, "position_biased_input": False},
    "distilbert": {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32},
    "electra": _SIZES | {"embedding_size": 8},
    "esm": _SIZES | {"mask_token_id": 4, "position_embedding_type": "rotary"},
    "gpt2": {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 150},
    "llama": _ONE_KEY,
    "mistral": _ONE_KEY,
    "modernbert": _SIZES | {"bos_token_id": 2, "eos_token_id": 3},
    "mpnet": _SIZES,
    "qwen3": _ONE_KEY,
    "roberta": _NO_TYPES,
    "roformer": _SIZES,
    "xlm-roberta": _NO_TYPES,
    "xlnet": {"d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 32},
}


def word_tokenizer(decoder=False):
    """Words, with [CLS] and [SEP] around them; a decoder's has an end token alone."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    names: dict[str, Any] = {"unk_token": "[UNK]", "eos_token": "[SEP]"}
    names["model_input_names"] = ["input_ids", "attention_mask"]
    if not decoder:
        tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def tiny_network(kind, seed=0, **options):
    """A random network of 3 blocks and 16 dimensions."""
    sizes = (
        {"vocab_size": 25, "pad_token_id": 0} | CONFIGS.get(kind, _ONE_KEY) | options
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = AutoModel.from_config(AutoConfig.for_model(kind, **sizes)).eval()
        for parameter in network.parameters():
            if parameter.ndim > 1:
                # By default all vectors would look alike.
                nn.init.normal_(parameter, std=0.3)
    return network


def tiny_encoder(kind="bert", sizes=None, **options):
    """An encoder of such a network in memory."""
    backbone = Backbone(tiny_network(kind, **sizes or {}), word_tokenizer())
    return SentenceEncoder(backbone, **options)


def write_tiny(folder, kind="bert", seed=0):
    """Write a random checkpoint."""
    network = tiny_network(kind, seed)
    network.save_pretrained(folder)
    word_tokenizer(kind in DECODERS).save_pretrained(folder)
    return folder


@cache
def _load(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer, AutoModel.from_pretrained(folder).eval()


def states_of(folder, sentence):
    """Hidden states of one sentence by transformers alone, ``(T, D)`` each."""
    tokenizer, model = _load(folder)
    features = tokenizer([sentence], return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        output = model(**features, output_hidden_states=True)
    # ModernBERT of transformers 4.51 lists the last one before its norm.
    states = (*output.hidden_states[:-1], output.last_hidden_state)
    return [state[0].numpy() for state in states]


def add_modules(folder, *modules, **transformer):
    """Make a folder one of sentence-transformers: modules after the transformer."""
    listed = [
        {
            "idx": 0,
            "name": "0",
            "path": "",
            "type": "sentence_transformers.models.Transformer",
        }
    ]
    for number, (kind, config) in enumerate(modules, start=1):
        path = folder / f"{number}_{kind}"
        path.mkdir(exist_ok=True)
        if kind == "Pooling":
            config = {"word_embedding_dimension": 16} | config
        (path / "config.json").write_text(json.dumps(config))
        if kind == "Dense":
            weight = np.random.default_rng(number).normal(
                size=(config["out_features"], 16)
            )
            tensors = {"linear.weight": torch.from_numpy(weight).float()}
            save_file(tensors, path / "model.safetensors")
        module = f"sentence_transformers.models.{kind}"
        listed.append(
            {"idx": number, "name": str(number), "path": path.name, "type": module}
        )
    (folder / "modules.json").write_text(json.dumps(listed))
    if transformer:
        (folder / "sentence_bert_config.json").write_text(json.dumps(transformer))
    return folder
