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
from torch import Tensor, nn

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.after_pooling import Dense
from flowbert.encoders.pooling import Pooling
from flowbert.encoders.saving import write_encoder
from flowbert.encoders.token_weights import WEIGHTINGS
from flowbert.errors import UserError
from flowbert.exports.compiled import Affine, CompiledMap, compile_behind
from flowbert.methods.chain import Chain
from flowbert.methods.embedder import Embedder, Fitted

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


def has_native_form(model: Embedder) -> bool:
    """Whether the folder also holds what this package loads, the encoder and the map apart.

    A chain has no file of its own, and modules of the encoder's own would be one with the map.
    """
    return not (isinstance(model.fitted, Chain) or len(model.encoder.after_pooling))


def write_folder(
    folder: Path, encoder: SentenceEncoder, fitted: Fitted | None, *, settings: bool = True
) -> CompiledMap | None:
    """Write an encoder and a map into an empty folder.

    Args:
        folder: The folder.
        encoder: The encoder.
        fitted: The map; None for none.
        settings: Whether to say how this package uses the encoder: only with :func:`has_native_form`.

    Returns:
        The layers of the map, and of what was folded into it.

    Raises:
        UserError: If stock modules cannot express the map, the pooling or the precision; the message names it.
    """
    own, compiled = compile_behind(list(encoder.after_pooling), fitted, encoder.dim)
    modules = stock_modules(encoder, own, compiled)
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
    return compiled


def stock_modules(
    encoder: SentenceEncoder, own: Sequence[nn.Module], compiled: CompiledMap | None
) -> list[StockModule]:
    """Modules after the transformer: layers mixed, tokens weighed and pooled, those of the encoder's own, the map.

    Raises:
        UserError: If there are none for the pooling or the precision.
    """
    if encoder.dtype != torch.float32:
        dtype = encoder.describe()["dtype"]
        raise UserError(f"dtype: received {dtype}; allowed in a sentence-transformers folder: float32")
    config: Any = encoder.backbone.config
    ((layers, pooling),) = encoder.settings
    if not (pooling.weighted or pooling.name in MODES):
        allowed = ", ".join([*MODES, *WEIGHTINGS])
        raise UserError(f"pooling: received {pooling.text}, which no stock module does; allowed: {allowed}")
    modules = [] if layers == (encoder.num_layers,) else [_layer_mixing(encoder.num_layers, layers, config.hidden_size)]
    flow = compiled is not None and len(compiled.outer) > 0
    weights = _position_0(encoder) if flow and pooling.name == "cls" else _token_weights(pooling)
    if weights is not None:
        modules.append(_word_weights(encoder, weights))
    mode = MODES[pooling.name] if weights is None else "mean"
    modules += [_pooling(config.hidden_size, mode), *map(_own, own)]
    if compiled is None:
        return modules
    return [*modules, *(_joined(compiled, mode) if flow else [_layer(compiled.last)])]


def _layer_mixing(num_layers: int, layers: Sequence[int], dim: int) -> StockModule:
    weights = torch.zeros(num_layers + 1 - min(layers))
    weights[[layer - min(layers) for layer in layers]] = 1.0
    config = {"word_embedding_dimension": dim, "layer_start": min(layers), "num_hidden_layers": num_layers}
    return StockModule("WeightedLayerPooling", config, {"layer_weights": weights})


def _token_weights(pooling: Pooling) -> Tensor | None:
    if not pooling.weighted:
        return None
    if pooling.weights is None:
        raise UserError(f"pooling: {pooling.text} needs token counts; allowed: an encoder that has them")
    return pooling.weights.clamp_min(_TINY)


def _position_0(encoder: SentenceEncoder) -> Tensor:
    """Weights of tokens under which the mean is position 0, whose own feature the hidden layers take.

    Of a text that itself holds the token, "[CLS]" say, it is the mean over all of these.
    """
    cls = encoder.tokenizer.cls_token_id
    rows = [encoder.tokenize([text])["input_ids"][0].tolist() for text in ("a", "a, b")]
    if cls is None or any(row[0] != cls or cls in row[1:] for row in rows):
        raise UserError(
            "pooling: received cls under a flow, and the tokenizer does not begin every text with a token of its own; "
            "allowed: mean, or format onnx"
        )
    return torch.nn.functional.one_hot(torch.tensor(cls), len(encoder.tokenizer)).float()


def _word_weights(encoder: SentenceEncoder, weights: Tensor) -> StockModule:
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


def _own(part: nn.Module) -> StockModule:
    """A module of the encoder's own, as it is."""
    if not isinstance(part, Dense):
        return StockModule("Normalize", {})
    residual = {"use_residual": True} if part.use_residual else {}  # versions before 5.7 do not know the word
    return _dense(part.state_dict(), part.activation, **residual)


def _layer(layer: Affine, activation: nn.Module | None = None, **names: Any) -> StockModule:
    tensors = {"linear.weight": layer.weight, "linear.bias": layer.bias}
    return _dense(tensors, activation or nn.Identity(), **names)


def _dense(tensors: Mapping[str, Tensor], activation: nn.Module, **more: Any) -> StockModule:
    config = {
        "in_features": tensors["linear.weight"].shape[1],
        "out_features": tensors["linear.weight"].shape[0],
        "bias": "linear.bias" in tensors,
        "activation_function": f"{type(activation).__module__}.{type(activation).__name__}",
    }
    return StockModule("Dense", config | more, tensors)


def _joined(compiled: CompiledMap, mode: str) -> Iterator[StockModule]:
    """The embedding is pooled anew before every network, and joined to the hidden layers so far, which are positive.

    So a relu lets them pass, and nothing else needs to be carried.
    """
    for k, (outer, inner) in enumerate(zip(compiled.outer, compiled.inner, strict=True)):
        if k:
            yield _pooling(compiled.dim, "cls", mode)
        before = outer.weight.shape[1] - compiled.dim
        yield _layer(_beside(before, outer, after=True), nn.ReLU())
        yield _layer(_beside(before, inner), nn.ReLU(), module_output_name=_HIDDEN)
    yield _pooling(compiled.dim, "cls", mode)
    yield _layer(compiled.last)


def _beside(size: int, layer: Affine, *, after: bool = False) -> Affine:
    """The identity on the first columns above a layer: of the columns behind these, or of all columns (``after``)."""
    columns = layer.weight.shape[1] if after else size + layer.weight.shape[1]
    rows = torch.eye(size, columns, dtype=torch.float64)
    below = layer.weight if after else torch.nn.functional.pad(layer.weight, (size, 0))
    return Affine(torch.cat([rows, below]), torch.cat([torch.zeros(size), layer.bias]))


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
