"""Loading and checking networks and tokenizers of folders and the hub."""

from collections.abc import Mapping
from logging import getLogger
from typing import Any

import torch

from flowbert.encoders.backbone import Backbone
from flowbert.encoders.folders import (
    MODULES_FILE,
    SENTENCE_TRANSFORMER,
    SETTINGS_FILE,
    EncoderFiles,
    loading,
    locate,
    read_folder,
)
from flowbert.errors import UserError, check_choice, warn
from flowbert.io import as_json
from flowbert.registry import import_object

QUANTIZED = ("8bit", "4bit")
"""Precisions that bitsandbytes computes; what it does not quantize is in bfloat16."""

DTYPES = ("float32", "float16", "bfloat16", "float64", *QUANTIZED)


def load_backbone(
    path: str,
    revision: str | None = None,
    dtype: str = "float32",
    device_map: Any = None,
    *,
    is_changed: bool = False,
    frozen: bool = True,
) -> Backbone:
    """Load a network and its tokenizer; code that comes with a checkpoint is never run.

    Args:
        path: The encoder, as the user names it.
        revision: Commit, branch or tag on the hub.
        dtype: One of :data:`DTYPES`, which may differ from that of the checkpoint.
        device_map: Devices of the modules, as ``from_pretrained`` takes them; None for one device.
        is_changed: Whether layers or pooling differ from the folder; further modules of
            sentence-transformers may be left out then, as in a training.
        frozen: Whether the encoder is frozen.

    Raises:
        UserError: If it cannot be loaded or is not a text encoder, if its weights, blocks or
            vocabulary are inconsistent, or if a quantized or distributed network is to be trained.
        LibraryNeededError: If only sentence-transformers can compute the vectors of the folder.
    """
    check_choice("dtype", dtype, DTYPES)
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    files = locate(path, revision)
    has_settings = (files.folder / SETTINGS_FILE).is_file()
    if not has_settings and (files.folder / MODULES_FILE).is_file():
        open_folder = import_object(f"{SENTENCE_TRANSFORMER}.open_transformer")
        opened = open_folder(path, files, is_changed or not frozen, frozen)
        config, tokenizer, folder, subfolder = opened
        files = files._replace(subfolder=subfolder)
    else:
        folder = read_folder(files.folder)
        with loading(path):
            config = AutoConfig.from_pretrained(
                files.folder, gguf_file=files.gguf_file, trust_remote_code=False
            )
            _check_config(path, config)
            tokenizer = AutoTokenizer.from_pretrained(
                files.folder, gguf_file=files.gguf_file, trust_remote_code=False
            )
    # Exported folders set it; each call asks for hidden states.
    config.output_hidden_states = False
    options = {"dtype": dtype} if dtype in QUANTIZED else {}
    if options and getattr(config, "quantization_config", None):
        raise UserError(
            f"received {dtype} for {path!r}, whose weights are quantized; expected the precision "
            "of the rest, such as bfloat16",
            argument="dtype",
        )
    if device_map is not None:
        options["device_map"] = as_json(device_map)
    with loading(path):
        network, report = load_model(
            AutoModel, files, dtype, config=config, device_map=device_map
        )
    if files.gguf_file:  # its weights are plain numbers now, which can be saved
        network.hf_quantizer = None
        vars(network.config).pop("quantization_config", None)
    _check_weights(path, network, report)
    _check_tokenizer(path, tokenizer, network.config.vocab_size)
    if not frozen and (options or getattr(network, "hf_quantizer", None)):
        raise UserError(
            f"received {path!r} with quantized weights or a device_map; expected neither in a "
            "training",
            argument="encoder",
        )
    backbone = Backbone(network.eval(), tokenizer, path, files.revision, folder)
    backbone.options = options
    if report["missing_keys"]:  # they are random numbers
        backbone.remove_pooler()
    return backbone


def load_model(
    make: Any, files: EncoderFiles, dtype: str, **options: Any
) -> tuple[Any, Any]:
    """Load a model by an auto class of transformers; also returns missing and unused weights."""
    if dtype in QUANTIZED:
        from transformers import BitsAndBytesConfig

        # Each product in 8 bits would say that it converts bfloat16.
        getLogger("bitsandbytes.autograd._functions").setLevel("ERROR")
        options["quantization_config"] = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
            **{f"load_in_{dtype}": True},
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
        dtype = "bfloat16"
    model, report = make.from_pretrained(
        files.source,
        revision=files.revision,
        subfolder=files.subfolder,
        gguf_file=files.gguf_file,
        trust_remote_code=False,
        output_loading_info=True,
        **in_dtype(getattr(torch, dtype)),
        **options,
    )
    return model, report


def in_dtype(dtype: torch.dtype) -> dict[str, torch.dtype]:
    """The argument of ``from_pretrained`` for the precision of the weights."""
    from transformers import PretrainedConfig

    # transformers calls it torch_dtype before 4.56.
    name = "dtype" if hasattr(PretrainedConfig(), "dtype") else "torch_dtype"
    return {name: dtype}


def _check_config(path: str, config: Any) -> None:
    sizes = ("hidden_size", "num_hidden_layers", "vocab_size")
    # A T5EncoderModel is half of one, which AutoModel does not load.
    is_pair = config.is_encoder_decoder or hasattr(config, "num_decoder_layers")
    # LXMERT has a mapping of numbers of layers.
    if is_pair or not all(isinstance(getattr(config, x, None), int) for x in sizes):
        raise UserError(
            f"received {path!r} of type {config.model_type!r}; expected a text encoder such as "
            "BERT",
            argument="encoder",
        )


def _check_weights(path: str, network: Any, report: Mapping[str, Any]) -> None:
    """Warn of weights that the network does not have, and of code that was not run.

    Args:
        path: The encoder as the user names it.
        network: The network.
        report: Report of transformers.

    Raises:
        UserError: If weights other than those of a pooler are missing.
    """
    missing = sorted(report["missing_keys"])
    lacking = [name for name in missing if not name.startswith("pooler")]
    if lacking:
        raise UserError(
            f"received {path!r}, which lacks {len(lacking)} weights of a "
            f"{type(network).__name__}, first {lacking[0]!r}",
            argument="encoder",
        )
    # Other weights are above the network, which was pretrained or classifies by them.
    parts = {name for name, _ in network.named_children()} - {"pooler"}
    prefix = f"{network.base_model_prefix}."
    names = sorted(name.removeprefix(prefix) for name in report["unexpected_keys"])
    others = [name for name in names if name.partition(".")[0] in parts]
    if others:
        warn(
            f"encoder: {path} has {len(others)} weights that a {type(network).__name__} does not "
            f"have, first {others[0]}; they are not used"
        )
    classes = getattr(network.config, "auto_map", None)
    if code := classes.get("AutoModel") if isinstance(classes, dict) else None:
        warn(
            f"encoder: the config.json of {path} names code that comes with it, {code}, which is "
            f"not run; {type(network).__name__} of transformers may compute other vectors"
        )


def _check_tokenizer(path: str, tokenizer: Any, size: int) -> None:
    """Raise a UserError if the tokenizer does not fit the vocabulary; add a padding token."""
    if tokenizer.pad_token_id is None:
        # Decoders have none. Padding is masked, so that any token will do.
        tokenizer.pad_token = tokenizer.eos_token
    # Without tokenizer files transformers makes up a tokenizer of special tokens.
    fits = len(tokenizer.all_special_ids) < len(tokenizer) <= size
    if not fits or tokenizer.pad_token_id is None:
        raise UserError(
            f"received {path!r}, whose tokenizer has {len(tokenizer)} tokens for {size} of the "
            f"weights, and the padding token {tokenizer.pad_token}; expected at most as many, "
            "words among them, and a padding or end token",
            argument="encoder",
        )
