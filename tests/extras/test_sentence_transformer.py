"""Folders that sentence-transformers makes have its vectors, whoever computes them."""

import json
from functools import partial
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as library
from sentence_transformers.sentence_transformer.modules.tokenizer import (
    WhitespaceTokenizer,
)

from encoders.tiny import (
    SENTENCES,
    WORDS,
    assert_near,
    write_tiny,
)
from flowbert.encoders import load_encoder
from flowbert.extras.sentence_transformer import SentenceTransformerEncoder
from helpers import with_slow

TEXTS = [*SENTENCES, "The CAT", "  a dog ", "mat " * 40]
PROMPTS = {"prompts": {"query": "the big "}, "default_prompt_name": "query"}
HIDDEN = {"method": "forward", "method_output_name": ("hidden_states", -2)}


def made(folder, modules, kind="bert", transformer=None, **options):
    """A SentenceTransformer of a small random network and further modules."""
    write_tiny(folder / kind, kind)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = library.Transformer(str(folder / kind), **(transformer or {}))
        if first.tokenizer.pad_token is None:
            first.tokenizer.pad_token = first.tokenizer.eos_token
        parts = [module() for module in modules]
        return SentenceTransformer(modules=[first, *parts], device="cpu", **options)


def of_words(_, modules):
    """A SentenceTransformer of word vectors and further modules."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tokenizer = WhitespaceTokenizer(WORDS, stop_words=[], do_lower_case=True)
        words = library.WordEmbeddings(tokenizer, torch.rand(len(WORDS), 16).numpy())
        parts = [module() for module in modules]
        return SentenceTransformer(modules=[words, *parts], device="cpu")


def pooling(mode="mean", **options):
    return partial(library.Pooling, 16, mode, **options)


def word_weights():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    return library.WordWeights(words, {"cat": 3.0, "[CLS]": 0.1})


def of(*modules, make=made, **options):
    """How to make a folder of these modules."""
    return partial(make, modules=modules, **options)


MEAN, NORMALIZE, LAST = pooling(), library.Normalize, pooling("lasttoken")
OURS: dict[str, Any] = {
    **{mode: of(pooling(mode)) for mode in ("cls", "max", "weightedmean", "lasttoken")},
    **{
        f"{kind}, mean": of(MEAN, kind=kind)
        for kind in ("distilbert", "roberta", "mpnet", "modernbert", "gpt2", "llama")
    },
    "mean": of(MEAN),
    "Normalize": of(MEAN, NORMALIZE),
    "prompt": of(MEAN, **PROMPTS),
    "prompt, lasttoken": of(LAST, **PROMPTS),
    "prompts without a default": of(MEAN, prompts={"q": "the "}),
    "max_seq_length": of(MEAN, transformer={"max_seq_length": 7}),
    "lower case": of(MEAN, transformer={"do_lower_case": True}),
    "cut on the left": of(
        MEAN,
        transformer={
            "processor_kwargs": {"truncation_side": "left"},
            "max_seq_length": 7,
        },
    ),
    "configuration": of(MEAN, transformer={"config_kwargs": {"hidden_act": "relu"}}),
}
"""Folders that this package computes."""
THEIRS: dict[str, Any] = {
    "mean_sqrt_len_tokens": of(pooling("mean_sqrt_len_tokens")),
    "two modes": of(pooling(("max", "mean"))),
    "Dense": of(MEAN, partial(library.Dense, 16, 6)),
    "WordWeights": of(word_weights, MEAN),
    "tokens normalized": of(partial(library.Normalize, "token_embeddings"), MEAN),
    "prompt with a slot": of(MEAN, prompts={"q": "a {} "}, default_prompt_name="q"),
    "prompt with [SEP]": of(MEAN, prompts={"q": "a[SEP]"}, default_prompt_name="q"),
    "include_prompt": of(pooling(include_prompt=False), **PROMPTS),
    "truncate_dim": of(MEAN, truncate_dim=8),
    "method_output_name": of(
        MEAN,
        transformer={
            "modality_config": {"text": HIDDEN},
            "module_output_name": "token_embeddings",
        },
    ),
    "processing_kwargs": of(
        MEAN, transformer={"processing_kwargs": {"text": {"max_length": 4}}}
    ),
    "words": of(MEAN, make=of_words),
}
"""Folders that sentence-transformers has to compute."""
FOLDERS = OURS | THEIRS


def move_transformer(folder):
    """The transformer in a folder of its own, as sentence-transformers 0.x wrote it."""
    path = folder / "modules.json"
    records = json.loads(path.read_text())
    files = [file for file in folder.iterdir() if file.is_file()]
    (folder / "0_BERT").mkdir()
    for file in files:
        if file.name not in ("modules.json", "config_sentence_transformers.json"):
            file.rename(folder / "0_BERT" / file.name)
    records[0]["path"] = "0_BERT"
    path.write_text(json.dumps(records))


def check(name, folder, *changes):
    FOLDERS[name](folder / "made").save(str(folder / "saved"), create_model_card=False)
    for change in changes:
        change(folder / "saved")
    peer = SentenceTransformer(str(folder / "saved"), device="cpu")
    encoder = load_encoder(folder / "saved")
    assert isinstance(encoder, SentenceTransformerEncoder) == (name in THEIRS)
    vectors, expected = encoder.encode(TEXTS), peer.encode(TEXTS)
    if "Normalize" in name and name in OURS:  # dropped: cosines are the same
        vectors = torch.nn.functional.normalize(torch.from_numpy(vectors)).numpy()
    assert_near(vectors, expected)


# Of every kind of reading one; all are slow.
QUICK = ("weightedmean", "Dense", "prompt", "lower case", "method_output_name")
OLDER = ("mean", "cls", "Normalize", "Dense", "prompt")
pytestmark = [
    pytest.mark.filterwarnings("ignore:max_length. .* were cut"),
    pytest.mark.filterwarnings("ignore:encoder. .* ends in Normalize"),
]


@pytest.mark.parametrize("name", with_slow(FOLDERS, QUICK))
def test_a_folder_has_the_vectors_of_the_library(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.parametrize("name", with_slow(OLDER, ["mean"]))
def test_a_transformer_in_a_folder_of_its_own(name, tmp_path):
    check(name, tmp_path, move_transformer)
