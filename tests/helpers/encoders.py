"""Encoders for tests: tiny random checkpoints on disk, and a backbone whose layer k is the constant k."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    CamembertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    LlamaConfig,
    MPNetConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLMRobertaConfig,
)

WORDS = (
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
)
_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}

_SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 150,
}
_ROBERTA_SIZES = {**_SIZES, "pad_token_id": 0, "type_vocab_size": 1}
_CONFIGS: dict[str, tuple[type[PretrainedConfig], dict[str, Any]]] = {
    "bert": (BertConfig, _SIZES),
    "roberta": (RobertaConfig, _ROBERTA_SIZES),
    "camembert": (CamembertConfig, _ROBERTA_SIZES),
    "xlm-roberta": (XLMRobertaConfig, _ROBERTA_SIZES),
    "albert": (
        AlbertConfig,
        {**_SIZES, "embedding_size": 8, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
    ),
    "distilbert": (
        DistilBertConfig,
        {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 150},
    ),
    "mpnet": (MPNetConfig, {**_SIZES, "pad_token_id": 0}),
    "electra": (ElectraConfig, {**_SIZES, "embedding_size": 8}),
    "deberta": (DebertaV2Config, {**_SIZES, "relative_attention": True, "position_biased_input": False}),
}
ARCHITECTURES = tuple(_CONFIGS)
_DECODERS: dict[str, tuple[type[PretrainedConfig], dict[str, Any]]] = {
    "gpt2": (GPT2Config, {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 150}),
    "llama": (LlamaConfig, {**_SIZES, "num_key_value_heads": 1}),
}
DECODERS = tuple(_DECODERS)


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Words and punctuation of :data:`WORDS`, with [CLS] and [SEP] around; the padding token has number 0."""
    vocabulary = {word: number for number, word in enumerate([*_SPECIAL.values(), *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_SPECIAL)  # type: ignore[no-untyped-call]


def end_tokenizer() -> PreTrainedTokenizerFast:
    """As decoders have one: the words alone, one special token for the end, and none to fill a batch up."""
    vocabulary = {word: number for number, word in enumerate(["<end>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>")  # type: ignore[no-untyped-call]


def make_encoder(folder: Path, architecture: str = "bert", seed: int = 0, **options: Any) -> Path:
    """Write a random checkpoint of 3 blocks and 16 dimensions; ``options`` go into its configuration."""
    tokenizer = end_tokenizer() if architecture in DECODERS else word_tokenizer()
    config_class, sizes = {**_CONFIGS, **_DECODERS}[architecture]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModel.from_config(config_class(**{**sizes, "vocab_size": len(tokenizer), **options}))  # type: ignore[no-untyped-call]
        # Default weights are so small that all embeddings would look alike.
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class ConstantLayers(nn.Module):
    """A backbone whose hidden state k is k everywhere: whatever is pooled shows which layers were averaged."""

    def __init__(self, num_layers: int = 12, dim: int = 4):
        super().__init__()
        self.config = SimpleNamespace(hidden_size=dim, num_hidden_layers=num_layers)
        self.anchor = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> SimpleNamespace:
        """Constant hidden states of shape ``(B, T, D)``."""
        states = [torch.full((*attention_mask.shape, self.config.hidden_size), float(k)) for k in range(self.layers)]
        return SimpleNamespace(hidden_states=tuple(states), input_ids=input_ids)

    @property
    def layers(self) -> int:
        """Hidden states: the embedding layer and every block."""
        return int(self.config.num_hidden_layers) + 1


def add_modules(
    folder: Path, *modules: tuple[str, dict[str, Any]], transformer: dict[str, Any] | None = None, dim: int = 16
) -> Path:
    """Make an encoder's folder one of sentence-transformers: modules after the transformer, kind and config each."""
    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, (kind, config) in enumerate(modules, start=1):
        place = folder / f"{number}_{kind}"
        place.mkdir(exist_ok=True)
        if kind == "Pooling":
            config = {"word_embedding_dimension": dim} | config
        (place / "config.json").write_text(json.dumps(config))
        if kind == "Dense":
            generator = torch.Generator().manual_seed(number)
            size, out = config["in_features"], config["out_features"]
            weights = {"linear.weight": torch.randn(out, size, generator=generator)}
            if config.get("bias", True):
                weights["linear.bias"] = torch.randn(out, generator=generator)
            if config.get("use_residual") and size != out:
                weights["residual.weight"] = torch.randn(out, size, generator=generator)
            save_file(weights, place / "model.safetensors")
        listed.append(
            {"idx": number, "name": str(number), "path": place.name, "type": f"sentence_transformers.models.{kind}"}
        )
    (folder / "modules.json").write_text(json.dumps(listed))
    if transformer is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(transformer))
    return folder
