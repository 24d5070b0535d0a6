"""The options that several commands share: one table says type, default and help, so that a word means one thing."""

import os
from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from jsonargparse import ArgumentParser, Namespace

from flowbert.data.readers import TABLES
from flowbert.encoders.pooling import POOLINGS
from flowbert.errors import UserError, choices
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.processes import own_gpu
from flowbert.vectors.formats import FORMATS

DEVICES = ("auto", "cpu", "cuda", "mps")
SEVERAL = " Several: with commas, or a list."
FITTED = "Run folder of a finished fit, an exported folder, or the name of one on the hub (owner/name@revision too)."


class Option(NamedTuple):
    """Type, default and help of an option."""

    kind: Any
    default: Any
    help: str


_ENCODER = (
    "A folder, a hub name (owner/name@revision too), the run folder of a trained encoder, builtin-sample, or a text "
    "file of word vectors."
)
_LAYERS = (
    "last, last2, first_last, embedding_last, or hidden states to average, '1,12' (0: embedding layer, -1: the last)."
)
_CORPUS = (
    "What methods are fitted on: target (all sentences of the task, labels unused), train_only, nli, builtin-sample, "
    "files (a path, a glob, a comma-separated list), or hub:NAME."
)
_POOLING = (
    f"{', '.join(POOLINGS)}; options after colons: idf:exponent=0.5, sif:a=0.01, weighted_mean:exponent=0.5, "
    "zipf:a=0.01, and of these four cls=16 (a weight for [CLS]) and special=true (the special tokens, too). Default: "
    "as trained, or as the folder says, else mean."
)
_COUNTS = (
    "What the tokens are counted over that idf, sif and weighted_mean weigh: corpus (what is fitted on), run (what is "
    "measured, in fit with what is fitted on), a run folder, an exported folder, the name of one on the hub "
    "(owner/name), or a corpus: a file, a glob, nli, hub:NAME. Default: as trained, else corpus."
)
_LENGTH = "Tokens where sentences are cut; 0: nowhere. Default: as trained, or as the folder says, else 128."
_PROMPT = (
    "Text before every sentence, 'query: '; its tokens are pooled, too. Default: as trained, or as the folder says, "
    "else none."
)
_MODULES = (
    "What is applied of the modules after the pooling of a sentence-transformers folder: dense (up to the last Dense, "
    "the default), all (Normalize, too), none (the default of a folder exported here: method given takes its map)."
)
_TABLES = " ".join(TABLES)
_VECTORS = (
    f"File of vectors ({' '.join(FORMATS)}) in place of an encoder; tasks are files of pairs by row number, from 0."
)
_TASKS = (
    f"Comma-separated: STS12..STS16, STSB, SICKR, SAMPLE, or files of own pairs ({_TABLES}). Default: SAMPLE; of "
    "published rows: all they have."
)
OPTIONS = {
    "encoder.path": Option(str, "builtin-sample", _ENCODER),
    "encoder.revision": Option(str | None, None, "Commit, branch or tag on the hub."),
    "encoder.layers": Option(str | int | list[int] | None, None, f"{_LAYERS} Default: as trained, else last."),
    "encoder.pooling": Option(str | None, None, _POOLING),
    "encoder.counts": Option(str | None, None, _COUNTS),
    "encoder.max_length": Option(int | None, None, _LENGTH),
    "encoder.prompt": Option(str | None, None, _PROMPT),
    "encoder.modules": Option(str | None, None, _MODULES),
    "encoder.dtype": Option(str, "float32", "float32, float16 or bfloat16."),
    "corpus": Option(str, "target", _CORPUS),
    "nli": Option(str, "hub", f"NLI pairs of the corpus nli: hub, builtin-sample, or files ({_TABLES})."),
    "vectors": Option(str | None, None, _VECTORS),
    "column": Option(str | None, None, "Column of the sentences, or of the vectors, in table files."),
    "max_sentences": Option(int | None, None, "Fit on a random subset of so many sentences. Default: all."),
    "drop_overlap": Option(bool, False, "Learn without the labelled pairs that are measured, too."),
    "tasks": Option(str | list[str] | None, None, _TASKS),
    "senteval": Option(str | None, None, "Folder laid out as SentEval's data/downstream, or hub; not for SAMPLE."),
    "seed": Option(int, 0, "Seed of everything random."),
    "seeds": Option(int | str | list[int], 0, "Seeds of the flows fitted here: 0, or 0,1,2."),
    "output": Option(str, "results.json", "File to write, ending in .json."),
    "bootstrap": Option(int, 1000, "Resamples for 95% confidence intervals; 0: none."),
    "bootstrap_seed": Option(int, 0, "Seed of the resampling."),
    "store_dir": Option(str | None, None, "Cache of embeddings. Default: $FLOWBERT_CACHE or ~/.cache/flowbert."),
    "device": Option(str, "auto", ", ".join(DEVICES) + "."),
}
_COMPARED = ("encoder.path", "encoder.layers", "encoder.pooling", "corpus")  # lists of them are compared item by item


def add_options(group: Any, *names: str, several: bool = False, defaults: Mapping[str, Any] | None = None) -> None:
    """Add shared options to a parser or to a group of one.

    Args:
        group: The parser, or one of its groups.
        names: Names in :data:`OPTIONS`.
        several: Whether the command compares encoders and corpora, so that their options take lists, too.
        defaults: Defaults other than the shared ones.
    """
    for name in names:
        option = OPTIONS[name]
        default = (defaults or {}).get(name, option.default)
        if option.kind is bool:
            group.add_argument(f"--{name}", action="store_true", help=option.help)
        elif several and name in _COMPARED:
            group.add_argument(f"--{name}", type=_or_list(option.kind), default=default, help=option.help + SEVERAL)
        else:
            kind = option.kind if default is not None else option.kind | None
            group.add_argument(f"--{name}", type=kind, default=default, help=option.help)


def _or_list(kind: Any) -> Any:
    """The type, or a list of its values."""
    item: Any = reduce(or_, (each for each in get_args(kind) or (kind,) if each is not type(None)))
    return kind | list[item]


def add_encoder_options(parser: ArgumentParser, *, several: bool = False, without: Collection[str] = ()) -> None:
    """Add the group ``encoder``: the arguments of :meth:`flowbert.encoders.SentenceEncoder.from_pretrained`."""
    group = parser.add_argument_group("The encoder")
    names = [name for name in OPTIONS if name.startswith("encoder.") and name not in without]
    add_options(group, *names, several=several)


def call_arguments(options: Namespace, suffixes: tuple[str, ...] = ()) -> dict[str, Any]:
    """Arguments of a library call from a command's options, as far as it has them: the device, the encoder's settings.

    Args:
        options: The options.
        suffixes: Endings that the file to write may have; none: that is not looked at.

    Raises:
        UserError: If output or device cannot be.
    """
    arguments = dict(options.as_dict())
    del arguments["config"]
    if suffixes:
        arguments["output"] = check_output(arguments["output"], suffixes)
    if "encoder" in arguments:
        arguments["encoder"] = EncoderSettings(**arguments["encoder"])
    if "device" in arguments:
        arguments["device"] = chosen_device(arguments["device"])
    return arguments


def chosen_device(name: str) -> torch.device:
    """Device by name; ``auto`` takes an accelerator if there is one.

    Raises:
        UserError: If the name is unknown or this machine has no such device.
    """
    if name not in DEVICES:
        raise UserError(f"--device: received {name!r}; {choices(DEVICES, name)}")
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    here = [device for device, there in available.items() if there]
    if name not in ("auto", *here):
        raise UserError(f"--device: {name} is not available on this machine; allowed: {', '.join(here)}")
    device = torch.device(here[0] if name == "auto" else name)
    if device.type == "cuda":
        own_gpu()
    return device


def check_output(path: str, suffixes: tuple[str, ...]) -> Path:
    """Path of a file that a command is going to write.

    Raises:
        UserError: If it is a folder, has another ending, or lies where nothing can be written.
    """
    output = Path(path)
    if output.is_dir() or output.suffix not in suffixes:
        raise UserError(f"--output: received {path!r}; allowed: a file ending in {', '.join(suffixes)}")
    existing = next(folder for folder in output.absolute().parents if folder.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise UserError(f"--output: {existing} is not a folder that can be written; allowed: one that is")
    return output
