"""The whole chain as one ONNX graph: token numbers in, sentence embeddings out.

Exported by ``torch.onnx.export`` with ``dynamo=True``, the exporter that torch maintains; batch and length are free.
"""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from flowbert.calibration import Calibration
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.pooling import POOLER, mix_layers
from flowbert.errors import UserError
from flowbert.exports.check import compared, trial_sentences
from flowbert.exports.compiled import Affine, CompiledMap, compile_map, steps_of
from flowbert.flows import Glow
from flowbert.methods.embedder import Embedder, Fitted
from flowbert.notices import loggers_at
from flowbert.progress import progress

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
LARGEST_DIFFERENCE = 1e-4  # of a cosine, in float32
_INPUTS = ("input_ids", "attention_mask")
_BATCHES = (1, 3, 32)  # sizes to compare with, over and over
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def write_onnx(folder: Path, model: Embedder) -> None:
    """Write ``model.onnx`` and ``tokenizer.json``, which cuts and pads as the model does.

    A map that :func:`compile_map` folds is its dense layers; couplings that multiply are traced as they are.

    Raises:
        UserError: If a package is missing, the tokenizer is not one file, the precision is not float32, the encoder has
            a prompt, or torch cannot express the network.
    """
    check_packages()
    encoder = model.encoder
    if not encoder.tokenizer.is_fast:
        raise UserError(f"tokenizer: {type(encoder.tokenizer).__name__} is not one file; allowed: a fast tokenizer")
    if encoder.dtype != torch.float32:
        raise UserError(f"dtype: received {encoder.describe()['dtype']}; allowed in ONNX: float32")
    if encoder.prompt:
        raise UserError(f"prompt: received {encoder.prompt!r}, which no graph puts before text; allowed in ONNX: none")
    _write_tokenizer(folder / TOKENIZER, encoder)
    chain = _Chain(encoder, model.fitted).eval()
    example = encoder.tokenize(["a b c", "a"])
    free = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},) * len(_INPUTS)
    with torch.no_grad(), _exporter_quiet():
        program = torch.onnx.export(
            chain,
            tuple(example[name].to(encoder.device) for name in _INPUTS),
            input_names=_INPUTS,
            output_names=["sentence_embedding"],
            dynamic_shapes=free,
            dynamo=True,
            verbose=False,
        )
    if program is None or any(
        isinstance(size, int) for value in program.model.graph.inputs for size in value.shape or ()
    ):
        # For an operation that it does not know, the exporter falls back to one that fixes all sizes.
        what = f"{type(encoder.backbone).__name__} with pooling {encoder.pooling}"
        raise UserError(f"format: {what} has no form in ONNX with batch and length left free; allowed: other formats")
    program.save(folder / MODEL, external_data=False)


def quantize(folder: Path) -> None:
    """Put int8 weights in place of the encoder's float32 ones; what stands behind the encoder stays in float32.

    Activations are quantized as they come ("dynamic"), so no text is needed for it.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    nodes = list(onnx.load(folder / MODEL).graph.node)
    last = max(i for i, node in enumerate(nodes) if any(name.startswith("backbone.") for name in node.input))
    behind = [node.name for node in nodes[last + 1 :]]  # small eigenvalues, say, do not survive 8 bits
    smaller = folder / "int8.onnx"
    with _exporter_quiet():
        # A scale for every column of a weight: whitening amplifies the small directions, where one for all is coarse.
        quantize_dynamic(
            folder / MODEL, smaller, per_channel=True, weight_type=QuantType.QInt8, nodes_to_exclude=behind
        )
    smaller.replace(folder / MODEL)


def check_onnx(folder: Path, model: Embedder, allowed: float = LARGEST_DIFFERENCE) -> float:
    """Largest difference of a cosine between onnxruntime on the folder and the model, over batches of several shapes.

    Raises:
        UserError: If it is above what is allowed.
    """
    sentences = trial_sentences(model)
    return compared(model.encode(sentences), OnnxEncoder(folder).encode(sentences), allowed)


class OnnxEncoder:
    """An exported folder in onnxruntime, as anybody else would use it.

    Args:
        folder: The folder.
        threads: Threads; 0: as many as there are cores.
    """

    def __init__(self, folder: str | Path, threads: int = 0) -> None:
        check_packages()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(Path(folder) / MODEL, options, ["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(Path(folder) / TOKENIZER))

    def encode(self, sentences: list[str], batch_sizes: tuple[int, ...] = _BATCHES) -> npt.NDArray[np.float32]:
        """Embed N sentences in their order, in batches of these sizes in turn: ``(N, k)``."""
        found: list[npt.NDArray[np.float32]] = []
        start = 0
        with progress(len(sentences), "Encoding with onnxruntime", "sentences") as step:
            while start < len(sentences):
                size = batch_sizes[len(found) % len(batch_sizes)]
                tokens = self._tokenizer.encode_batch(sentences[start : start + size])
                given = (np.array([t.ids for t in tokens]), np.array([t.attention_mask for t in tokens]))
                found.append(self._session.run(None, dict(zip(_INPUTS, given, strict=True)))[0])
                start += size
                step.update(len(tokens))
        return np.concatenate(found)


def check_packages() -> None:
    """Find out whether the packages are there.

    Raises:
        UserError: If one is not.
    """
    import importlib.util

    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"format: onnx needs {', '.join(missing)}; needed: pip install 'flowbert[onnx]'")


class _Chain(nn.Module):
    """Encoder, layers, pooling, its own modules, map; the network makes the token types, which are all 0, itself."""

    def __init__(self, encoder: SentenceEncoder, fitted: Fitted | None) -> None:
        super().__init__()
        self.backbone = encoder.backbone
        ((self.layers, self.pooling),) = encoder.settings
        self.after_pooling = encoder.after_pooling
        self.map = nn.Identity() if fitted is None else _map_of(fitted, encoder.dim).to(encoder.device)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        output = self.backbone(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True, return_dict=True
        )
        if self.pooling.name == POOLER:
            rows = output.pooler_output
        else:
            rows = self.pooling(mix_layers(output.hidden_states, self.layers), attention_mask, input_ids)
        mapped: Tensor = self.map(self.after_pooling(rows))
        return mapped


class _Compiled(nn.Module):
    """A compiled map in float32; weights lie as they are multiplied."""

    def __init__(self, compiled: CompiledMap) -> None:
        super().__init__()
        self.compiled = CompiledMap(
            compiled.dim,
            tuple(_float(layer) for layer in compiled.outer),
            tuple(_float(layer) for layer in compiled.inner),
            _float(compiled.last),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.compiled(x)


class _Native(nn.Module):
    """A flow, level by level: its own calls work in blocks and switch autocast off, which ONNX has no word for."""

    def __init__(self, flow: Glow) -> None:
        super().__init__()
        self.flow = copy.deepcopy(flow)

    def forward(self, x: Tensor) -> Tensor:
        return self.flow.through_levels(x)[0]


def _map_of(fitted: Fitted, dim: int) -> nn.Module:
    """One compiled map if all of it folds; else step by step."""
    try:
        return _Compiled(compile_map(fitted, dim))
    except UserError:  # a coupling multiplies
        parts: list[nn.Module] = []
        for step in steps_of(fitted):
            if isinstance(step, Calibration):
                parts.append(_Compiled(compile_map(step, dim)))
                dim = len(step.affine()[1])
            else:
                parts.append(_Native(step))
        return nn.Sequential(*parts)


def _float(layer: Affine) -> Affine:
    return Affine(layer.weight.float(), layer.bias.float())


def _write_tokenizer(path: Path, encoder: SentenceEncoder) -> None:
    tokenizer: Any = encoder.tokenizer
    alone = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    alone.enable_truncation(encoder.max_length)
    alone.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token)
    alone.save(str(path))


@contextmanager
def _exporter_quiet() -> Iterator[None]:
    """Without the exporter's notes on itself, and on operators of packages that are not installed."""
    with loggers_at(logging.ERROR, "torch.onnx", ""), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
