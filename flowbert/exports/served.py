"""Programs that compute the vectors of an exported folder.

Of a folder of sentence-transformers, text-embeddings-inference and vLLM read a ``Transformer``, the
``Pooling`` in ``1_Pooling``, one ``Dense`` and ``Normalize``; llama.cpp no ``Dense`` of a BERT.
They skip other modules without an error.

References:
    text-embeddings-inference, ``router/src/lib.rs`` and ``backends/src/lib.rs``:
    https://github.com/huggingface/text-embeddings-inference
    vLLM 0.33, ``transformers_utils/config.py`` and ``model_executor/models/adapters.py``:
    https://github.com/vllm-project/vllm
    llama.cpp at 0c1e57098, ``conversion/base.py`` and ``conversion/gemma.py``:
    https://github.com/ggml-org/llama.cpp
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flowbert.encoders.source import POOLING_SWITCHES, default_prompt, read_settings
from flowbert.errors import UserError
from flowbert.io import read_json

MODULES = "modules.json"
STOCK = "sentence_transformers.models."
"""Prefix of the names of modules that all releases of these programs know."""

_READ_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
# text-embeddings-inference does not support the last token of a BERT.
_READ_POOLINGS = ("cls", "mean")
_ACTIVATIONS = ("torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh")
_LAST_TOKEN = "pooling_mode_lasttoken"
_VECTORS = "sentence_embedding"
_PARTS_SHOWN = 3


def served_by(folder: Path) -> str:
    """Programs that compute the vectors of an exported folder, and what others skip.

    Args:
        folder: The folder, of any format.

    Returns:
        Text after "computed by".
    """
    if not (folder / MODULES).is_file():
        is_graph = any(folder.glob("*.onnx"))
        return "ONNX Runtime" if is_graph else "the code in its README.md"
    left_out = parts_left_out(folder)
    pooling = folder / "1_Pooling" / "config.json"
    if left_out == [pooling.parent.name] and read_json(pooling).get(_LAST_TOKEN):
        return (
            "sentence-transformers; vLLM and text-embeddings-inference pool the last token "
            "of some decoders"
        )
    if left_out:
        return (
            "sentence-transformers; text-embeddings-inference, vLLM and llama.cpp would "
            f"skip {_shown(left_out)}"
        )
    for kind, path in _modules(folder):
        if kind == "Dense":
            return (
                "sentence-transformers, text-embeddings-inference and vLLM; llama.cpp would "
                f"skip {path}"
            )
    return "sentence-transformers, text-embeddings-inference, vLLM and llama.cpp"


def check_servable(folder: Path) -> None:
    """Check that text-embeddings-inference and vLLM compute the vectors of a folder.

    Raises:
        UserError: If they would skip a part of the model.
    """
    if not (folder / MODULES).is_file():
        raise UserError(
            "received another format; expected sentence-transformers",
            argument="servable",
        )
    if left_out := parts_left_out(folder):
        raise UserError(
            "received a model of which text-embeddings-inference and vLLM would skip "
            f"{_shown(left_out)}; expected encoder.layers -1, encoder.pooling mean or "
            "cls, no prompt, and an affine map, such as whitening",
            argument="servable",
        )


def parts_left_out(folder: Path) -> list[str]:
    """Modules and settings of a folder that text-embeddings-inference or vLLM do not read."""
    left_out: list[str] = []
    waiting = list(_READ_KINDS)
    configs = {
        file.parent.name: read_json(file) for file in folder.glob("*/config.json")
    }
    for kind, path in _modules(folder):
        if kind in waiting and _is_read(kind, configs.get(path, {})):
            del waiting[: waiting.index(kind) + 1]
        else:
            left_out.append(path or kind)
    if not left_out:
        left_out += read_settings(folder).unsupported
    if prompt := default_prompt(folder / "config_sentence_transformers.json"):
        left_out.append(f"the prompt {prompt!r}")
    for file in folder.glob("sentence_*_config.json"):
        if read_json(file).get("do_lower_case"):
            left_out.append("do_lower_case")
    return left_out


def _modules(folder: Path) -> Iterator[tuple[str, str]]:
    """Kind and folder of each module."""
    for entry in read_json(folder / MODULES, list):
        yield entry["type"].removeprefix(STOCK), entry["path"]


def _is_read(kind: str, config: Mapping[str, Any]) -> bool:
    """Whether the programs read a module of a known kind, by its ``config.json``."""
    if kind == "Transformer":
        return True
    if kind == "Pooling":
        modes = [mode for name, mode in POOLING_SWITCHES.items() if config.get(name)]
        return len(modes) == 1 and modes[0] in _READ_POOLINGS
    source = config.get("module_input_name", _VECTORS)
    target = config.get("module_output_name") or source
    activation = config.get("activation_function")
    is_known = kind == "Normalize" or activation in _ACTIVATIONS
    return source == target == _VECTORS and is_known and not config.get("use_residual")


def _shown(parts: Sequence[str]) -> str:
    """The first parts, and how many more there are."""
    more = len(parts) - _PARTS_SHOWN
    return ", ".join(parts[:_PARTS_SHOWN]) + (f" and {more} more" if more > 0 else "")
