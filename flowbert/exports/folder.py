"""A sentence-transformers folder of stock modules: it opens without this package and without a flag.

What the modules do to the features of a batch is in their source (sentence_transformers 6.2, ``base/modules/dense.py``,
``sentence_transformer/modules/pooling.py``). A flow needs names of features in ``Dense``, which version 5.4 brought.
"""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.pooling import Pooling
from flowbert.encoders.saving import write_encoder
from flowbert.errors import UserError
from flowbert.exports.compiled import Affine, CompiledMap

MODES = {"mean": "mean", "cls": "cls", "max": "max", "position_mean": "weightedmean", "last_token": "lasttoken"}
"""Pooling -> its name in sentence-transformers; those with token weights are means after ``WordWeights``."""

_TINY = 1e-8  # in place of weight 0: lost in rounding, but a sentence of such tokens alone still gets its plain mean
_PREFIX = "sentence_transformers.models"  # understood by old and new versions
_HIDDEN = "cls_token_embeddings"  # a feature that Pooling puts before what it pools, whatever it holds


@dataclass(frozen=True)
class StockModule:
    """One module of the folder: its class, its config and its tensors."""

    kind: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


def write_folder(
    folder: Path, encoder: SentenceEncoder, compiled: CompiledMap | None, *, settings: bool = True
) -> None:
    """Write an encoder and a compiled map into an empty folder.

    Args:
        folder: The folder.
        encoder: The encoder.
        compiled: The map; None for none.
        settings: Whether to say how this package uses the encoder: not where the map has no file of its own.

    Raises:
        UserError: If stock modules cannot express the pooling or the precision; the message names it.
    """
    modules = stock_modules(encoder, compiled)
    use = {name: encoder.describe()[name] for name in ("layers", "pooling", "max_length", "prompt")}
    with _hidden_states_given(encoder.backbone.config, encoder.layers != (encoder.num_layers,)):
        write_encoder(folder, encoder.backbone, encoder.tokenizer, use if settings else None, encoder.counts)
    listed = [{"idx": 0, "name": "0", "path": "", "type": f"{_PREFIX}.Transformer"}]
    for number, module in enumerate(modules, start=1):
        path = f"{number}_{module.kind}"
        (folder / path).mkdir()
        _write_json(folder / path / "config.json", module.config)
        if module.tensors:
            tensors = {name: value.float().contiguous() for name, value in module.tensors.items()}
            save_file(tensors, folder / path / "model.safetensors", metadata={"format": "pt"})
        listed.append({"idx": number, "name": str(number), "path": path, "type": f"{_PREFIX}.{module.kind}"})
    _write_json(folder / "modules.json", listed)
    transformer: dict[str, Any] = {"max_seq_length": encoder.max_length, "do_lower_case": False}
    if "add_pooling_layer" in inspect.signature(type(encoder.backbone).__init__).parameters:
        transformer["model_args"] = {"add_pooling_layer": False}  # it was dropped: none is made up when it loads
    _write_json(folder / "sentence_bert_config.json", transformer)
    prompts = {"prompts": {"default": encoder.prompt}, "default_prompt_name": "default"} if encoder.prompt else {}
    _write_json(folder / "config_sentence_transformers.json", {"prompts": {}, "similarity_fn_name": "cosine"} | prompts)


def stock_modules(encoder: SentenceEncoder, compiled: CompiledMap | None) -> list[StockModule]:
    """Modules after the transformer: layers mixed, tokens weighed and pooled, the map.

    Raises:
        UserError: If there are none for the pooling or the precision, or the encoder has modules of its own.
    """
    if len(encoder.after_pooling):
        raise UserError(f"modules: received {encoder.after_pooling.word}; allowed in an export: an encoder with none")
    if encoder.dtype != torch.float32:
        dtype = encoder.describe()["dtype"]
        raise UserError(f"dtype: received {dtype}; allowed in a sentence-transformers folder: float32")
    ((layers, pooling),) = encoder.settings
    if not (pooling.counted or pooling.name in MODES):
        allowed = f"{', '.join(MODES)}, idf, sif, weighted_mean"
        raise UserError(f"pooling: received {pooling.text}, which no stock module does; allowed: {allowed}")
    modules = [] if layers == (encoder.num_layers,) else [_layer_mixing(encoder, layers)]
    if pooling.counted:
        modules.append(_word_weights(encoder, pooling))
    mode = "mean" if pooling.counted else MODES[pooling.name]
    modules.append(_pooling(encoder.dim, mode))
    if compiled is None:
        return modules
    if not compiled.outer:
        return [*modules, _dense(compiled.last)]
    return [*modules, *(_carried(compiled) if mode == "cls" else _joined(compiled, mode))]


def _layer_mixing(encoder: SentenceEncoder, layers: Sequence[int]) -> StockModule:
    weights = torch.zeros(encoder.num_layers + 1 - min(layers))
    weights[[layer - min(layers) for layer in layers]] = 1.0
    config = {
        "word_embedding_dimension": encoder.dim,
        "layer_start": min(layers),
        "num_hidden_layers": encoder.num_layers,
    }
    return StockModule("WeightedLayerPooling", config, {"layer_weights": weights})


def _word_weights(encoder: SentenceEncoder, pooling: Pooling) -> StockModule:
    if pooling.weights is None:
        raise UserError(f"pooling: {pooling.text} needs token counts; allowed: an encoder that has them")
    weights = pooling.weights.clamp_min(_TINY)
    vocabulary = encoder.tokenizer.convert_ids_to_tokens(list(range(len(weights))))
    by_token = dict(zip(vocabulary, weights.tolist(), strict=True))
    config = {"vocab": vocabulary, "word_weights": by_token, "unknown_word_weight": 1.0}
    return StockModule("WordWeights", config, {"emb_layer.weight": weights[:, None]})


def _pooling(dim: int, *modes: str) -> StockModule:
    old_names = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}
    config: dict[str, Any] = {"word_embedding_dimension": dim}
    for mode in ("cls", "mean", "max", "weightedmean", "lasttoken"):
        config[f"pooling_mode_{old_names.get(mode, mode)}"] = mode in modes
    return StockModule("Pooling", config | {"include_prompt": True})


def _dense(layer: Affine, *, relu: bool = False, **names: Any) -> StockModule:
    config = {
        "in_features": layer.weight.shape[1],
        "out_features": layer.weight.shape[0],
        "bias": True,
        "activation_function": f"torch.nn.modules.{'activation.ReLU' if relu else 'linear.Identity'}",
    }
    return StockModule("Dense", config | names, {"linear.weight": layer.weight, "linear.bias": layer.bias})


def _joined(compiled: CompiledMap, mode: str) -> Iterator[StockModule]:
    """The embedding is pooled anew before every network, and joined to the hidden layers so far, which are positive.

    So a relu lets them pass, and nothing else needs to be carried.
    """
    for k, (outer, inner) in enumerate(zip(compiled.outer, compiled.inner, strict=True)):
        if k:
            yield _pooling(compiled.dim, "cls", mode)
        before = outer.weight.shape[1] - compiled.dim
        yield _dense(_beside(before, outer, after=True), relu=True)
        yield _dense(_beside(before, inner), relu=True, module_output_name=_HIDDEN)
    yield _pooling(compiled.dim, "cls", mode)
    yield _dense(compiled.last)


def _beside(size: int, layer: Affine, *, after: bool = False) -> Affine:
    """The identity on the first columns above a layer: of the columns behind these, or of all columns (``after``)."""
    columns = layer.weight.shape[1] if after else size + layer.weight.shape[1]
    rows = torch.eye(size, columns, dtype=torch.float64)
    below = layer.weight if after else torch.nn.functional.pad(layer.weight, (size, 0))
    return Affine(torch.cat([rows, below]), torch.cat([torch.zeros(size), layer.bias]))


def _carried(compiled: CompiledMap) -> Iterator[StockModule]:
    """For position 0, whose place the hidden layers would take: x is carried as relu(x) and relu(-x), before them."""
    dim = compiled.dim
    identity = torch.eye(dim, dtype=torch.float64)
    yield _dense(Affine(torch.cat([identity, -identity]), torch.zeros(2 * dim)), relu=True)
    for outer, inner in zip(compiled.outer, compiled.inner, strict=True):
        split = _of_split(outer, dim)
        yield _dense(_beside(split.weight.shape[1], split, after=True), relu=True)
        yield _dense(_beside(split.weight.shape[1], inner), relu=True)
    yield _dense(_of_split(compiled.last, dim))


def _of_split(layer: Affine, dim: int) -> Affine:
    """A layer of ``[h, x]`` as one of ``[relu(x), relu(-x), h]``."""
    hidden, x = layer.weight[:, :-dim], layer.weight[:, -dim:]
    return Affine(torch.cat([x, -x, hidden], dim=1), layer.bias)


@contextmanager
def _hidden_states_given(config: Any, needed: bool) -> Iterator[None]:
    """The config says for a while, and so on disk, that all layers are given, if they are to be mixed."""
    before = config.output_hidden_states
    config.output_hidden_states = needed
    try:
        yield
    finally:
        config.output_hidden_states = before


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
