"""A Hugging Face encoder from a folder or the hub, or one clear line that says why not."""

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import torch
from tokenizers import normalizers
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from flowbert.data.sample import encoder_path
from flowbert.encoders.pooling import WITHOUT_POOLER
from flowbert.encoders.saving import SETTINGS_FILE, check_unchanged
from flowbert.encoders.sentence_folder import SentenceFolder
from flowbert.errors import UserError, choices
from flowbert.io.hub import fetch, first_line, is_hub_name, split_revision
from flowbert.io.run_folder import RunFolder
from flowbert.notices import transformers_notices_off

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SAMPLE_PATH = "builtin-sample"
_SAFE_WEIGHTS = "model*.safetensors"
_OLD_WEIGHTS = "pytorch_model*.bin"
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.bpe.codes")
_OTHER_FILES = ("*.json", "*.txt", "*.counts")
_MODULES = ("[0-9]_*/config.json", "[0-9]_*/model.safetensors", "[0-9]_*/pytorch_model.bin")  # sentence-transformers


def load_checkpoint(
    path: str, folder: Path, *, dtype: str, keep_pooler: bool
) -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """Load the plain transformer of a folder; code that a checkpoint brings along is never run.

    Args:
        path: The encoder as it was named, for messages.
        folder: Where :func:`find_checkpoint` found it.
        dtype: ``float32``, ``float16`` or ``bfloat16``, whatever the checkpoint is stored in.
        keep_pooler: Whether the pooler above the last layer is used; otherwise it is dropped, present or not.

    Returns:
        Network in evaluation mode, and tokenizer, which has a padding token.

    Raises:
        UserError: If nothing can be loaded, or weights of the encoder are missing from the checkpoint.
    """
    if dtype not in DTYPES:
        raise UserError(f"dtype: received {dtype!r}; {choices(DTYPES, dtype)}")
    check_unchanged(str(folder))
    with transformers_notices_off():
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            config.output_hidden_states = False  # asked for at each call; an exported folder says so for others
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            backbone = _load_backbone(path, folder, config, DTYPES[dtype], keep_pooler)
        except UserError:
            raise
        # transformers, tokenizers and safetensors raise a dozen unrelated types for a file that they cannot read.
        except Exception as error:
            raise UserError(f"encoder {path!r} cannot be read: {first_line(error)}") from error
    if SentenceFolder(folder).lowercases:
        _lowercase(tokenizer)
    if tokenizer.pad_token_id is None:
        # Decoders have none. What fills a batch up is masked, so any token will do; its number must exist.
        tokenizer.pad_token = tokenizer.eos_token
    _check_vocabulary(path, tokenizer, config)
    return backbone.eval(), tokenizer


def find_checkpoint(path: str, revision: str | None = None) -> tuple[Path, str | None]:
    """Folder with the files of an encoder, from the hub if need be, and the revision; nothing is loaded.

    Args:
        path: A folder, a run folder, a hub name, ``owner/name@revision``, or ``builtin-sample`` for a tiny BERT.
        revision: Commit, branch or tag on the hub; wins over one in the name.

    Raises:
        UserError: If there is no such encoder, or files that it needs are missing.
    """
    folder, revision = _locate(path, revision)
    _check_files(path, folder)
    return folder, revision


def _locate(path: str, revision: str | None) -> tuple[Path, str | None]:
    if path == SAMPLE_PATH:
        return encoder_path(), None
    folder = Path(path).expanduser()
    if path and folder.is_dir():
        if revision is not None:
            raise UserError(f"revision: received {revision!r} for the folder {path!r}; allowed: none, or a hub name")
        return _encoder_in(folder), None
    if path and folder.exists():
        raise UserError(f"encoder {path!r} is a file; allowed: the folder that holds config.json and the weights")
    name, named = split_revision(path)
    if not is_hub_name(name):
        raise UserError(
            f"encoder {path!r}: no such folder; allowed: a folder with a Hugging Face encoder or a hub name"
        )
    folder, commit = fetch(name, revision or named, _needed)
    return _encoder_in(folder), commit


def _encoder_in(folder: Path) -> Path:
    """The encoder of a run that trained it, else the folder itself."""
    return RunFolder(folder).encoder if RunFolder(folder).encoder.is_dir() else folder


def _needed(files: Sequence[str]) -> list[str]:
    """Patterns of the files that an encoder needs: one kind of weights, the best there is; of a run what it trained."""
    trained = RunFolder("").encoder.as_posix()
    if f"{trained}/config.json" in files:
        return [f"{trained}/*"]
    safe = any(fnmatch(file, _SAFE_WEIGHTS) for file in files if "/" not in file)
    modules = () if SETTINGS_FILE in files else _MODULES  # what is exported here has settings, and its map elsewhere
    return [*_TOKENIZER_FILES, *_OTHER_FILES, *modules, _SAFE_WEIGHTS if safe else _OLD_WEIGHTS]


def _check_files(path: str, folder: Path) -> None:
    for what, patterns in (
        ("config.json", ("config.json",)),
        ("weights", (_SAFE_WEIGHTS, _OLD_WEIGHTS)),
        ("tokenizer", _TOKENIZER_FILES),
    ):
        # Without this look transformers would make up a tokenizer of five tokens and go on.
        if not any(any(folder.glob(pattern)) for pattern in patterns):
            raise UserError(f"encoder {path!r} has no {what}; needed in its folder: {' or '.join(patterns)}")


def _load_backbone(
    path: str, folder: Path, config: PretrainedConfig, dtype: torch.dtype, keep_pooler: bool
) -> nn.Module:
    if config.is_encoder_decoder or not all(hasattr(config, name) for name in ("hidden_size", "num_hidden_layers")):
        raise UserError(f"encoder {path!r} is of type {config.model_type!r}; allowed: a text encoder such as BERT")
    backbone, report = AutoModel.from_pretrained(
        folder, config=config, dtype=dtype, local_files_only=True, trust_remote_code=False, output_loading_info=True
    )
    pooler_missing = sorted(name for name in report["missing_keys"] if name.startswith("pooler"))
    missing = sorted(set(report["missing_keys"]).difference(pooler_missing))
    if missing:
        raise UserError(
            f"encoder {path!r}: the checkpoint lacks {len(missing)} weights of the encoder, first {missing[0]!r}"
        )
    has_pooler = getattr(backbone, "pooler", None) is not None
    if keep_pooler and (not has_pooler or pooler_missing):
        lack = f"lacks its weights ({', '.join(pooler_missing)})" if has_pooler else f"({config.model_type}) has none"
        allowed = ", ".join(WITHOUT_POOLER)
        raise UserError(f"pooling: cls_pooler needs a pooler, and encoder {path!r} {lack}; allowed: {allowed}")
    if has_pooler and not keep_pooler:
        # An unused pooler would enter the digest, perhaps with random weights, and break distributed training.
        backbone.pooler = None
    return backbone  # type: ignore[no-any-return]


def _lowercase(tokenizer: PreTrainedTokenizerBase) -> None:
    normalizer = tokenizer.backend_tokenizer.normalizer
    if normalizer is None or normalizer.normalize_str("A") != "a":
        steps = [normalizers.Lowercase(), *([] if normalizer is None else [normalizer])]
        tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)


def _check_vocabulary(path: str, tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> None:
    size, special = len(tokenizer), len(tokenizer.all_special_ids)
    if size <= special:
        raise UserError(f"encoder {path!r}: its tokenizer has {size} tokens, all special; tokenizer files are missing")
    if size > config.vocab_size:
        raise UserError(f"encoder {path!r}: its tokenizer has {size} tokens, the weights only {config.vocab_size}")
    if tokenizer.pad_token_id is None:
        raise UserError(f"encoder {path!r}: its tokenizer has neither a padding nor an end token; needed: one")
