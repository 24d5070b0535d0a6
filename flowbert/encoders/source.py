"""Files of an encoder in a folder or on the hub, and what they say about its use."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from flowbert.data.hub import fetch_encoder
from flowbert.data.sample import sample_encoder_path
from flowbert.data.text_files import user_path
from flowbert.encoders.layers import LayerSpec
from flowbert.encoders.pooling import POOLINGS
from flowbert.encoders.template import SLOT, prompt_of
from flowbert.errors import UserError, first_line, warn
from flowbert.io import (
    digest,
    digest_file,
    inside,
    load_tensors,
    read_json,
    save_tensors,
    write_json,
)
from flowbert.registry import imports_refused

SAMPLE = "builtin-sample"
SETTINGS_FILE = "flowbert.json"
MODEL_SETTINGS = "config_sentence_transformers.json"
MODEL_FILE = "encoder.json"
"""File that tells a folder of maps, the ``model`` of a run or an export."""

TRAINED_ENCODER = "model/encoder"
"""Folder of the trained encoder in a run."""

WEIGHTS_FILE = "token_weights.safetensors"
_WEIGHTS_KIND = "token weights"
# All but the network's weights; from_pretrained knows which of those it needs.
_SMALL_FILES = (
    "*.json",
    "*.txt",
    "*.model",
    "*.codes",
    f"*{WEIGHTS_FILE}",
    "model/*.safetensors",
)
_USE = ("layers", "pooling", "max_length", "template", "skip_first")
_SETTINGS_SCHEMA: dict[str, Any] = {
    "layers": list,
    "pooling": str,
    "max_length": int,
    "template": (str, ""),
    "skip_first": (bool, False),
    "files": (dict, {}),
    "digest": (str, None),
}
POOLING_NAMES = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "weightedmean": "position_mean",
    "lasttoken": "last_token",
}
"""Poolings of sentence-transformers without token weights, and their names here."""

POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""A switch for each pooling of sentence-transformers, which before 5.4 wrote no name of one."""

# Modules whose vectors have the directions of ours, in their order.
_ORDERED = ("Transformer", "Pooling", "Normalize")
# Dropout does nothing in evaluation.
_PLAIN = (*_ORDERED, "Dropout")

_LIBRARY = "sentence_transformers"
# Its models of pairs, of sparse vectors and of tokens.
_OTHER_LIBRARY_PARTS = ("cross_encoder.", "sparse_encoder.", "multi_vector_encoder.")

# Keys of sentence-transformers 6.2 that flowbert reads, or that change no vector.
_READ = {
    *("idx", "name", "path", "type"),  # of modules.json
    *("__version__", "requirements", "model_type"),
    *("prompts", "default_prompt_name", "similarity_fn_name"),
    *("max_seq_length", "do_lower_case", "unpad_inputs"),
    *("query_length", "document_length", "query_expansion"),  # of encode_query
    *("word_embedding_dimension", "embedding_dimension"),
    *("pooling_mode", "include_prompt", *POOLING_SWITCHES),
    "dropout",
}
# Others, with the values that flowbert computes.
_COMPUTED: dict[str, tuple[Any, ...]] = {
    "transformer_task": ("feature-extraction",),
    "modality_config": (
        {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    ),
    "module_input_name": ("sentence_embedding",),  # of Normalize
    "module_output_name": ("token_embeddings", "sentence_embedding"),
}
_NOTHING: tuple[Any, ...] = (None, {}, [])
# Arguments of from_pretrained that change no vector beyond rounding.
_SAME_VECTORS = (
    *("add_pooling_layer", "attn_implementation", "dtype", "torch_dtype"),
    *("output_hidden_states", "trust_remote_code"),
)


class EncoderFiles(NamedTuple):
    """Where the files of an encoder are.

    Args:
        folder: Local folder with everything but, on the hub, the weights.
        source: Folder or hub name, for ``from_pretrained``.
        revision: Commit on the hub; None for a folder.
        subfolder: Folder inside of the source.
    """

    folder: Path
    source: str
    revision: str | None = None
    subfolder: str = ""

    def below(self, name: str) -> "EncoderFiles":
        """Files of a folder in this one; an empty name is this one."""
        subfolder = f"{self.subfolder}/{name}".strip("/")
        return self._replace(folder=self.folder / name, subfolder=subfolder)


class FolderSettings(NamedTuple):
    """Default settings of an encoder, from its folder.

    Args:
        layers: Layers to average.
        pooling: Pooling over tokens.
        max_length: Tokens after which a sentence is cut; None for what the tokenizer says.
        template: Text around every sentence.
        skip_first: Whether poolings over tokens leave out the first token; None if not known.
        token_weights: Saved weights of the pooling.
        trained: Whether the encoder was trained with flowbert.
        lowercase: Whether text is converted to lower case.
        pools_prompt: Whether tokens of the prompt are pooled.
        modules: Modules of a sentence-transformers folder, in order.
        unsupported: Settings of such a folder that only sentence-transformers computes.
        subfolder: Folder of the transformer in such a folder.
        has_map: Whether the folder is an exported model, with a map.
    """

    layers: LayerSpec = "last"
    pooling: str = "mean"
    max_length: int | None = 128
    template: str = ""
    skip_first: bool | None = None
    token_weights: Tensor | None = None
    trained: bool = False
    lowercase: bool = False
    pools_prompt: bool = True
    modules: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    subfolder: str = ""
    has_map: bool = False

    @property
    def left_out(self) -> list[str]:
        """Modules that only sentence-transformers computes."""
        return [kind for kind in self.modules if kind not in _PLAIN]

    def check_supported(self, path: str) -> None:
        """Raise a UserError if the folder has settings that only sentence-transformers computes."""
        if self.unsupported:
            raise UserError(
                f"received {path} with {', '.join(self.unsupported)}, which only "
                "sentence-transformers computes; expected its own layers and pooling, and no "
                "training",
                argument="encoder",
            )

    def check_template(self, path: str, template: str) -> None:
        """Raise a UserError for a prompt whose tokens the folder leaves out of its pooling."""
        expected = ""
        try:
            template.encode()
        except UnicodeEncodeError:
            expected = "valid text"
        if prompt_of(template) and not self.pools_prompt:
            expected = f"no prompt, because {path} leaves prompts out of its pooling"
        if expected:
            raise UserError(argument="template", received=template, expected=expected)

    def check_use(self, path: str, used: dict[str, Any], frozen: bool) -> None:
        """Warn if an encoder is used in another way than its folder says.

        Args:
            path: The encoder.
            used: Its description.
            frozen: Whether it stays as it is.
        """
        reasons = []
        for name in ("layers", "pooling", "template") if self.trained else ():
            value = getattr(self, name)
            if used[name] != value:
                reasons.append(
                    f"was trained with {name} {value!r} and is used with {used[name]!r}"
                )
        if self.left_out:
            reasons.append(f"is used without its modules {', '.join(self.left_out)}")
        elif frozen and self.modules[-1:] == ("Normalize",):
            reasons.append(
                "ends in Normalize, which is dropped: cosines are unchanged, but a map is fitted "
                "on vectors of other norms and differs"
            )
        if reasons:
            message = f"encoder: {path} {'; '.join(reasons)}"
            warn(message, 3)


def locate(
    path: str, revision: str | None = None, argument: str = "encoder"
) -> EncoderFiles:
    """Find the files of an encoder; on the hub fetch the small ones.

    Args:
        path: A folder, a run folder, a hub name, ``owner/name@revision``, or ``builtin-sample``.
        revision: Commit, branch or tag on the hub.
        argument: Name of the argument, for the message.

    Raises:
        UserError: If there is no such encoder.
    """
    folder = sample_encoder_path() if path == SAMPLE else user_path(path)
    if path and folder.exists():
        if not folder.is_dir():
            raise UserError(
                f"received the file {path!r}; expected its folder", argument="encoder"
            )
        if revision is not None:
            raise UserError(
                f"received {revision!r}, which has no effect on a folder",
                argument="revision",
            )
        if (folder / TRAINED_ENCODER).is_dir():
            folder = folder / TRAINED_ENCODER
        elif (folder / "model" / MODEL_FILE).is_file() and not (
            folder / "config.json"
        ).is_file():
            raise UserError(
                f"received {path!r}, a model whose encoder is in another folder; expected that "
                "folder, or the model as model of encode or as a method of compare",
                argument="encoder",
            )
        return EncoderFiles(folder, str(folder))
    snapshot = fetch_encoder(path, revision, _SMALL_FILES, argument)
    subfolder = TRAINED_ENCODER if (snapshot / TRAINED_ENCODER).is_dir() else ""
    name = path.partition("@")[0]
    return EncoderFiles(snapshot / subfolder, name, snapshot.name, subfolder)


def read_settings(folder: Path) -> FolderSettings:
    """Settings of a folder: of ``flowbert.json``, else of sentence-transformers, else none.

    Raises:
        UserError: If a file is damaged, or asks for something that is not supported.

    References:
        https://sbert.net/docs/package_reference/base/modules.html
    """
    if (folder / SETTINGS_FILE).is_file():
        return _trained_settings(folder)
    is_published = (folder / "modules.json").is_file()
    settings = _published_settings(folder) if is_published else FolderSettings()
    _check_network(folder / settings.subfolder, is_published)
    return settings


def _check_network(folder: Path, is_published: bool) -> None:
    """Raise a UserError if the network alone is not what its folder is for."""
    if (folder / "adapter_config.json").is_file():
        raise UserError(
            f"received {folder} with adapter_config.json, an adapter of another encoder; "
            "expected the merged encoder (merge_and_unload of peft)",
            argument="encoder",
        )
    config = folder / "config.json"
    if is_published or not config.is_file():
        return
    architectures = read_json(config, {"architectures": (list, None)})["architectures"]
    for name in architectures or ():
        if str(name).endswith("ForSequenceClassification"):
            raise UserError(
                f"received {folder}, a classifier or cross-encoder ({name}); expected an "
                "encoder, such as its base that AutoModel loads and saves",
                argument="encoder",
            )


def _trained_settings(folder: Path) -> FolderSettings:
    path = folder / SETTINGS_FILE
    settings = read_json(path, _SETTINGS_SCHEMA)
    expected = settings.pop("digest")
    # Whoever edits the file by hand leaves out both.
    if (expected is not None or settings["files"]) and digest(settings) != expected:
        raise UserError(f"{path}: damaged, or changed by hand")
    use = {name: settings[name] for name in _USE}
    with imports_refused():  # a custom pooling
        POOLINGS.parse(use["pooling"])
    return FolderSettings(
        **use,
        token_weights=load_token_weights(folder),
        trained=True,
        has_map=bool(map_files(folder / "model")),
    )


def map_files(folder: Path) -> list[Path]:
    """Files of maps in the ``model`` of a run or an export."""
    files = sorted(folder.glob("*.safetensors"))
    others = (WEIGHTS_FILE, "raw.safetensors")  # the output of an encoder without a map
    return [file for file in files if file.name not in others]


def _published_settings(folder: Path) -> FolderSettings:
    """Settings of a sentence-transformers folder."""
    unsupported: list[str] = []

    def read(name: str, schema: Any) -> dict[str, Any]:
        content: dict[str, Any] = read_json(folder / name, schema)
        unsupported.extend(_unsupported(content, name))
        return content

    kinds: list[str] = []
    subfolder, pooling, pools_prompt = "", "mean", True
    for entry in read_json(folder / "modules.json", list):
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise UserError(
                f"{folder / 'modules.json'}: expected a list of modules with a type"
            )
        unsupported += _unsupported(entry, "modules.json")
        kind = _kind(folder, entry["type"])
        kinds.append(kind)
        path = str(entry.get("path") or "")
        file = f"{path}/config.json".lstrip("/")
        if path:
            inside(folder, path)
        if kind == "Transformer":
            subfolder = path
        elif kind == "Pooling":
            content = read(file, {"include_prompt": (bool, True)})
            pools_prompt = content["include_prompt"]
            mode = _pooling_mode(content)
            pooling = POOLING_NAMES.get(mode, "mean")
            if mode not in POOLING_NAMES:
                unsupported.append(f"pooling_mode {mode} in {file}")
        elif kind in _PLAIN and (folder / file).is_file():
            read(file, {})
    ordered = [kind for kind in kinds if kind in _ORDERED]
    if ordered != [kind for kind in _ORDERED if kind in kinds]:
        unsupported.append("this order of modules in modules.json")
    transformer: dict[str, Any] = {}
    for found in sorted((folder / subfolder).glob("sentence_*_config.json"))[:1]:
        schema = {"max_seq_length": (int, None), "do_lower_case": (bool, False)}
        name = found.relative_to(folder).as_posix()
        transformer = read(name, schema)
    if (folder / MODEL_SETTINGS).is_file():
        model = read(MODEL_SETTINGS, {"model_type": (str, "")})
        if model["model_type"] not in ("", "SentenceTransformer"):
            _refuse_model(folder, model["model_type"])
    prompt = default_prompt(folder / MODEL_SETTINGS)
    return FolderSettings(
        pooling=pooling,
        max_length=transformer.get("max_seq_length"),
        template=f"{prompt}{SLOT}" if prompt else "",
        lowercase=transformer.get("do_lower_case", False),
        pools_prompt=pools_prompt,
        modules=tuple(kinds),
        unsupported=tuple(unsupported),
        subfolder=subfolder,
    )


def _kind(folder: Path, class_name: str) -> str:
    """Kind of a module; a class that sentence-transformers does not define keeps its whole name."""
    library, _, name = class_name.partition(".")
    if library != _LIBRARY:
        return class_name
    kind = name.rpartition(".")[2]
    if name.startswith(_OTHER_LIBRARY_PARTS):
        _refuse_model(folder, kind)
    return kind


def _unsupported(content: dict[str, Any], name: str) -> Iterator[str]:
    """Keys of a file whose values flowbert does not compute."""
    for key, value in content.items():
        if isinstance(value, dict):
            value = {k: x for k, x in value.items() if k not in _SAME_VECTORS}
        computed = key in _READ or value in _COMPUTED.get(key, ())
        if not computed and value not in _NOTHING:
            yield f"{key} in {name}"


def _refuse_model(folder: Path, kind: str) -> NoReturn:
    raise UserError(
        f"received {folder}, with {kind} of sentence-transformers; expected a "
        "SentenceTransformer, which gives a sentence one vector of its own",
        argument="encoder",
    )


def _pooling_mode(content: dict[str, Any]) -> str:
    """Name of a pooling of sentence-transformers, or of several that are concatenated."""
    switched = [
        mode for switch, mode in POOLING_SWITCHES.items() if content.get(switch)
    ]
    modes = content.get("pooling_mode", switched or ["mean"])
    mode = modes[0] if isinstance(modes, list) and len(modes) == 1 else modes
    return mode if isinstance(mode, str) else repr(mode)


def default_prompt(file: Path) -> str:
    """The prompt that ``config_sentence_transformers.json`` puts before every sentence."""
    if not file.is_file():
        return ""
    schema = {"prompts": (dict, None), "default_prompt_name": (str, None)}
    content = read_json(file, schema)
    prompt = (content["prompts"] or {}).get(content["default_prompt_name"])
    return prompt if isinstance(prompt, str) else ""


def write_settings(folder: Path, described: dict[str, Any]) -> None:
    """Write how the encoder in a folder is used, by its description, and digests of its files."""
    content = {name: described[name] for name in _USE}
    files = sorted(folder.iterdir())
    content["files"] = {path.name: digest_file(path) for path in files}
    write_json(folder / SETTINGS_FILE, content | {"digest": digest(content)})


def save_token_weights(folder: Path, weights: Tensor | None) -> None:
    """Write the weights of a pooling, ``(V,)``, into a folder, where there are any."""
    if weights is not None:
        save_tensors(folder / WEIGHTS_FILE, _WEIGHTS_KIND, {"weights": weights})


def load_token_weights(folder: Path) -> Tensor | None:
    """Weights of a pooling, ``(V,)``, from a folder; None if the folder has no weights."""
    file = folder / WEIGHTS_FILE
    return load_tensors(file, _WEIGHTS_KIND)[0]["weights"] if file.is_file() else None


def check_digests(folder: Path) -> None:
    """Check the files of a trained encoder against the digests in its settings.

    Raises:
        UserError: If one is missing, damaged or changed.
    """
    if not (folder / SETTINGS_FILE).is_file():
        return
    for name, expected in read_json(folder / SETTINGS_FILE, _SETTINGS_SCHEMA)[
        "files"
    ].items():
        path = inside(folder, name)
        if not path.is_file() or digest_file(path) != expected:
            raise UserError(
                f"{path}: missing, or changed since the encoder was written"
            )


def in_dtype(dtype: torch.dtype) -> dict[str, torch.dtype]:
    """The argument of ``from_pretrained`` for the precision of the weights."""
    from transformers import PretrainedConfig

    # transformers calls it torch_dtype before 4.56.
    name = "dtype" if hasattr(PretrainedConfig(), "dtype") else "torch_dtype"
    return {name: dtype}


@contextmanager
def loading(path: str) -> Iterator[None]:
    """Load an encoder in silence; whatever is wrong with its files is a UserError of one line."""
    try:
        with quiet():
            yield
    except UserError:
        raise
    # transformers, tokenizers and safetensors raise a dozen types for files they cannot read.
    except Exception as error:
        raise UserError(
            f"received {path!r}; it cannot be loaded: {first_line(error)}",
            argument="encoder",
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Hide transformers' load reports and bars; what matters in them is checked here."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
