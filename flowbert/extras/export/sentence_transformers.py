"""A folder of sentence-transformers modules, which needs flowbert only if the map is not affine.

References:
    https://sbert.net/docs/package_reference/sentence_transformer/models.html
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.folders import MODULES_FILE, quiet
from flowbert.encoders.pooling import POOLING_NAMES, vocabulary_size
from flowbert.errors import UserError
from flowbert.extras.export.card import base_name
from flowbert.extras.export.formats import EXPORT_FORMATS, Format
from flowbert.extras.export.plain_encoder import with_template_in_tokenizer
from flowbert.extras.sentence_transformer import SentenceTransformerEncoder
from flowbert.io import read_json, write_json
from flowbert.maps import Map, load_map, save_map
from flowbert.model import Model

_MAP_FILE = "map.safetensors"


MODES = {name: mode for mode, name in POOLING_NAMES.items()}
"""Poolings without token weights, and their names in sentence-transformers."""

TRANSFORMER_SETTINGS = "sentence_bert_config.json"
_SPELT = (
    *("Transformer", "Pooling", "Dense", "Normalize"),
    *("WeightedLayerPooling", "WordWeights"),
)
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_SKIPPED = """

Only sentence-transformers computes these vectors: servers such as text-embeddings-inference, vLLM
and llama.cpp skip its {} without an error, and give others."""
_SMALLEST = 1e-8  # for weight 0: a sentence of such tokens alone gets its plain mean


def stock_modules(encoder: SentenceEncoder, fitted: Map | None) -> list[Any]:
    """Modules after the transformer: average of layers, token weights, pooling, map.

    Raises:
        UserError: If the pooling or the map is not supported.
    """
    from sentence_transformers.sentence_transformer.modules import (
        Pooling,
        WeightedLayerPooling,
        WordWeights,
    )

    pooling = encoder.pooling
    is_weighted = pooling.weights is not None
    if pooling.options.get("unit") or not (is_weighted or pooling.name in MODES):
        raise _refused(f"the pooling {pooling}", f"{', '.join(MODES)}, token weights")
    modules: list[Any] = []
    if encoder.layers != (encoder.num_layers,):
        start = min(encoder.layers)
        weights = torch.zeros(encoder.num_layers + 1 - start)
        weights[[layer - start for layer in encoder.layers]] = 1
        mixing = WeightedLayerPooling(encoder.dim, encoder.num_layers, start)
        mixing.layer_weights = nn.Parameter(weights)
        modules.append(mixing)
    mode = MODES.get(pooling.name, "mean")
    token_weights = pooling.weights
    if encoder.sink_token and pooling.over_tokens:
        if mode != "mean":
            raise _refused(
                f"the pooling {pooling}, which leaves out {encoder.sink_token!r}",
                "mean, last_token, or onnx",
            )
        if token_weights is None:
            token_weights = torch.ones(vocabulary_size(encoder.backbone.tokenizer))
        token_weights = token_weights.clone()
        vocabulary = encoder.backbone.tokenizer.get_vocab()
        token_weights[vocabulary[encoder.sink_token]] = 0
    if token_weights is not None:
        values = token_weights.clamp_min(_SMALLEST).tolist()
        tokenizer = encoder.backbone.tokenizer
        tokens = tokenizer.convert_ids_to_tokens(list(range(len(values))))
        modules.append(WordWeights(tokens, dict(zip(tokens, values, strict=True))))
    modules.append(Pooling(encoder.dim, mode))
    return modules + map_modules(fitted)


def map_modules(fitted: Map | None) -> list[Any]:
    """One ``Dense`` of an affine map, or a :class:`MapModule` of another one."""
    if fitted is None:
        return []
    try:
        weight, bias = fitted.affine()
    except UserError:  # it is not affine
        return [MapModule(fitted)]
    return [_dense(weight.T, bias)]


def _dense(weight: Tensor, bias: Tensor) -> Any:
    """An affine layer of a weight ``(k, D)`` and a bias ``(k,)``."""
    from sentence_transformers.base.modules import Dense

    outputs, inputs = weight.shape
    layer = Dense(inputs, outputs, activation_function=nn.Identity())
    layer.linear.weight = nn.Parameter(weight.float().contiguous())
    layer.linear.bias = nn.Parameter(bias.float())
    return layer


def _refused(received: str, expected: str) -> UserError:
    return SentenceTransformers().refused(received, expected)


def _write_modules(folder: Path, modules: Sequence[Any]) -> None:
    """Write modules, the first one into the folder itself, and their names.

    Names of modules and poolings are those before sentence-transformers 5.4, which all programs
    read. With other names, text-embeddings-inference omits the ``Dense``, and vLLM has mistaken
    poolings for that of the network (its issues 45995 and 54533).
    """
    records = []
    for number, module in enumerate(modules):
        kind = type(module)
        name, path = kind.__name__, f"{number}_{kind.__name__}" if number else ""
        (folder / path).mkdir(exist_ok=True)
        module.save(str(folder / path))
        if isinstance(module, SentenceEncoder):
            name = "Transformer"
        old = f"sentence_transformers.models.{name}"
        full = old if name in _SPELT else f"{kind.__module__}.{name}"
        records.append({"idx": number, "name": str(number), "path": path, "type": full})
    write_json(folder / MODULES_FILE, records)
    for file in folder.glob("*_Pooling/config.json"):
        config = read_json(file)
        named = config.pop("pooling_mode", [])
        modes = [named] if isinstance(named, str) else named
        # The old names are read in one order.
        if modes and modes == [x for x in _SWITCHES.values() if x in modes]:
            spelt = {"word_embedding_dimension": config.pop("embedding_dimension")}
            # vLLM takes the first that is true.
            spelt |= {name: mode in modes for name, mode in _SWITCHES.items()}
            write_json(file, spelt | config)


def _settings(encoder: SentenceEncoder) -> dict[str, Any]:
    """Settings with which sentence-transformers loads the network."""
    settings: dict[str, Any] = {"max_seq_length": encoder.max_length}
    if encoder.layers != (encoder.num_layers,):
        settings["config_kwargs"] = {"output_hidden_states": True}
    backbone = encoder.backbone
    takes = inspect.signature(type(backbone.network)).parameters
    if "add_pooling_layer" in takes and not backbone.has_pooler:
        # Without this, loading makes up a random pooler.
        settings["model_kwargs"] = {"add_pooling_layer": False}
    return settings


@EXPORT_FORMATS.register("sentence-transformers")
class SentenceTransformers(Format):
    """A folder of modules, and the map itself for :class:`flowbert.Model`.

    An affine map is a ``Dense``, any other a :class:`MapModule`.
    """

    library = "sentence-transformers"
    packages = ("sentence_transformers",)

    def write(self, model: Model, folder: Path) -> None:
        """Write modules, settings and the map.

        Raises:
            UserError: If modules cannot compute the model; the message names the part.
        """
        from sentence_transformers import SentenceTransformer

        encoder = model.encoder
        if isinstance(encoder, SentenceEncoder):
            is_template = encoder.template and not encoder.tokenization.prompt
            if is_template and encoder.pooling.over_tokens:
                raise _refused(
                    f"the pooling {encoder.pooling}, which leaves out the template",
                    "pooling last_token or cls, or onnx",
                )
            encoder = with_template_in_tokenizer(encoder)
            _write_modules(folder, [encoder, *stock_modules(encoder, model.map)])
            write_json(folder / TRANSFORMER_SETTINGS, _settings(encoder))
            prompt = encoder.tokenization.prompt
            named, prompts = "default" if prompt else None, {"default": prompt}
            # The map itself, with an encoder without a path of this machine.
            moved = encoder.read()
            moved.path = base_name(encoder)
            Model(moved, model.map).save(folder / "model")
        elif isinstance(encoder, SentenceTransformerEncoder):
            opened = encoder.model
            modules = list(opened.children())
            if kept := opened.truncate_dim:  # before the map
                whole: Any = SentenceTransformer(modules=modules, device="cpu")
                first = torch.eye(kept, whole.get_embedding_dimension())
                modules.append(_dense(first, torch.zeros(kept)))
            _write_modules(folder, modules + map_modules(model.map))
            transformer = folder / TRANSFORMER_SETTINGS
            if transformer.is_file():
                # sentence-transformers writes it under another name.
                length = {"max_seq_length": opened.max_seq_length}
                write_json(transformer, read_json(transformer) | length)
            prompts, named = opened.prompts, opened.default_prompt_name
        else:
            received = f"{model.map_name} after {encoder.path}"
            views = "format onnx" if hasattr(encoder, "views") else "another encoder"
            raise self.refused(received, views)
        settings = {"prompts": prompts, "default_prompt_name": named}
        write_json(folder / "config_sentence_transformers.json", settings)
        for file in folder.glob("*config.json"):
            # Code of the checkpoint, which the flag for MapModule would run.
            if (settings := read_json(file)).pop("auto_map", None):
                write_json(file, settings)

    def encode(self, folder: Path, sentences: Sequence[str]) -> Any:
        """Vectors by sentence-transformers."""
        from sentence_transformers import SentenceTransformer

        with quiet():
            opened = SentenceTransformer(
                str(folder),
                device="cpu",
                # The module of a map that is not affine is flowbert's.
                trust_remote_code=any(folder.glob(f"*_{MapModule.__name__}")),
            )
        return opened.encode(list(sentences), show_progress_bar=False)

    def usage(self, name: str, model: Model) -> str:
        """A few lines of Python, their requirements, and the modules that servers skip."""
        modules = map_modules(model.map)
        if isinstance(model.encoder, SentenceEncoder):
            modules = stock_modules(model.encoder, model.map)
        names = {type(module).__name__ for module in modules}
        flag, needed = "", "no other package and no flag"
        if MapModule.__name__ in names:
            flag = ", trust_remote_code=True"
            needed = "flowbert, whose module computes the map"
        skipped = " and ".join(sorted(names - {"Pooling", "Dense"}))
        servers = _SKIPPED.format(skipped) if skipped else ""
        return f"""\
```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}"{flag})
embeddings = model.encode(["A man rides.", "Nobody rides."])
print(model.similarity(embeddings, embeddings))
```

It needs sentence-transformers 5.4 or newer, {needed}.{servers}"""


class MapModule(nn.Module):
    """A fitted map after the pooling, without trainable parameters.

    Args:
        map: The map.
    """

    def __init__(self, map: Map) -> None:
        super().__init__()
        self.map = map

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace ``sentence_embedding``, ``(B, D)``, by the mapped rows, ``(B, k)``."""
        mapped: Tensor = self.map.transform(features["sentence_embedding"])
        return features | {"sentence_embedding": mapped}

    def get_embedding_dimension(self) -> int:
        """Size k of a mapped row."""
        return self.map._n_features_out

    def save(self, output_path: str, **options: Any) -> None:
        """Write the map into a folder."""
        save_map(self.map, Path(output_path) / _MAP_FILE)

    @classmethod
    def load(cls, input_path: str) -> Self:
        """Read the map from a folder."""
        return cls(load_map(Path(input_path) / _MAP_FILE))
