"""Export of a model as a verified folder for other programs."""

import importlib.util
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from huggingface_hub import HfApi
from sklearn.metrics.pairwise import cosine_similarity

from flowbert import __version__
from flowbert.data.sample import sample_corpus
from flowbert.data.text_files import user_path
from flowbert.errors import FlowbertWarning, UserError, check_choice, first_line
from flowbert.experiments.results import Results
from flowbert.extras.export.card import TEXTS, find_method, model_card
from flowbert.io import write_new_folder
from flowbert.model import Model
from flowbert.options import ExportOptions, takes
from flowbert.progress import tell
from flowbert.registry import Registry

_UNUSUAL = (
    "UPPER and lower",
    "Ärger über Straßen",
    "naïve e\u0301tude",
    "句子很短。",
    "🙂 ok",
    "  spaces  ",
    "a tab\tand\na line",
    "don't — “quoted”",
    "1,000.5 %",
    "[CLS] [SEP]",
)
"""Texts that programs could tokenize differently."""


class Format(ABC):
    """A format of exports: writes, reads and describes a model.

    The parameters of the constructor are the options of its text, as in ``name:option=value``.

    Attributes:
        library: Library that the hub shows for a model of this format.
        packages: Required packages, by their names for pip.
        tolerance: Largest allowed difference of a cosine to that of the model.
    """

    library: ClassVar[str] = "flowbert"
    packages: ClassVar[Sequence[str]] = ()
    tolerance: ClassVar[float] = 1e-5

    @abstractmethod
    def write(self, model: Model, folder: Path) -> None:
        """Write a model into an empty folder.

        Raises:
            UserError: If the format cannot express the model.
        """

    @abstractmethod
    def encode(self, folder: Path, sentences: Sequence[str]) -> Any:
        """Vectors that the target program computes from a folder, ``(N, k)``, for verification."""

    @abstractmethod
    def usage(self, name: str, model: Model) -> str:
        """Instructions for the folder, in Markdown.

        Args:
            name: Folder or name on the hub that the model is loaded from.
            model: The exported model.
        """

    def refused(self, received: str, expected: str) -> UserError:
        """The error for an unsupported part of a model."""
        name = EXPORT_FORMATS.name_of(type(self))
        return UserError(
            f"received {name} for {received}; expected {expected}", argument="format"
        )


EXPORT_FORMATS: Registry[type[Format]] = Registry("format", base=Format)
"""Formats by name."""


@takes(ExportOptions)
def export(options: ExportOptions) -> Path:
    """Write a model as a folder for other programs, with a README.md for the hub.

    In a sentence-transformers folder ``WeightedLayerPooling`` averages layers, ``WordWeights`` has
    the token weights, and ``Dense`` is an affine map. Any other map is a module of flowbert, which
    must be installed to open the folder with ``trust_remote_code=True``. The folder also contains
    the map itself, for :class:`flowbert.Model`. ONNX is one graph from token ids to embeddings for
    all maps. Before the folder is kept, the target program encodes 256 texts: no cosine may differ
    from that of the model by more than 1e-5, or 1e-4 in ONNX.

    Args:
        options: Fields of :class:`flowbert.options.ExportOptions`, as arguments.

    Returns:
        The folder.

    Raises:
        UserError: If the format cannot express the model, the cosines differ, or the hub denies
            access.

    Example:
        >>> export("runs/first", "my-model", method="whitening")  # doctest: +SKIP
        PosixPath('my-model')
    """
    chosen: Format = EXPORT_FORMATS.make(options.format, argument="format")
    missing = [name for name in chosen.packages if not importlib.util.find_spec(name)]
    if missing:
        raise UserError(
            f"received {options.format}, which needs pip install {' '.join(missing)}",
            argument="format",
        )
    to, results = user_path(options.to), options.results
    if isinstance(options.model, Model):
        opened = options.model
        check_choice("method", options.method or opened.map_name, [opened.map_name])
    else:
        opened = Model.load(options.model, options.method, encoder=options.encoder)
        of_run = user_path(options.model) / "results.json"
        results = of_run if results is None and of_run.is_file() else results
    if opened.encoder is None:
        raise UserError("is missing; expected a model with one", argument="encoder")
    measured = None if results is None else Results.load(results)
    name = "" if measured is None else find_method(measured, opened)
    if options.results is not None and not name:
        raise UserError(
            f"received no scores of {opened.map_name} on {opened.encoder.path} with the settings "
            "of the model",
            argument="results",
        )
    with write_new_folder(to) as folder:
        tell(f"writing {options.format}")
        chosen.write(opened, folder)
        tell("comparing its cosines with those of the model")
        texts = _make_texts(opened)
        difference = _largest_difference(folder, opened, chosen, texts)
        if not difference <= chosen.tolerance:
            raise UserError(
                f"nothing is written, because cosines differ by {difference:.1e} from those of "
                f"the model; expected at most {chosen.tolerance:.0e}",
                argument="to",
            )
        card = model_card(
            opened,
            name=options.push_to or to.name,
            library=chosen.library,
            usage=chosen.usage(options.push_to or to.name, opened),
            method=name or opened.map_name,
            difference=difference,
            results=measured if name else None,
            license=options.license,
        )
        (folder / "README.md").write_text(card, encoding="utf-8")
    if options.push_to is not None:
        tell(f"uploading to {options.push_to}")
        upload(to, options.push_to, options.private)
    return to


def _make_texts(model: Model) -> list[str]:
    """Texts from one word to more than the maximum length."""
    words = [word for sentence in sample_corpus() for word in sentence.split()]
    longest = getattr(model.encoder, "max_length", 128) + 8
    counts = np.linspace(1, longest, TEXTS).astype(int)
    texts = [
        " ".join(words[start : start + count]) for start, count in enumerate(counts)
    ]
    texts[: len(_UNUSUAL)] = _UNUSUAL
    return texts


def _largest_difference(
    folder: Path, model: Model, chosen: Format, texts: Sequence[str]
) -> float:
    """Largest difference of a cosine between two texts."""
    with warnings.catch_warnings():
        # The longest are cut on purpose.
        warnings.simplefilter("ignore", FlowbertWarning)
        rows = (
            model.transform(model.encoder.encode(texts)),
            chosen.encode(folder, texts),
        )
    ours, theirs = (cosine_similarity(x.astype(np.float64)) for x in rows)
    return float(np.abs(ours - theirs).max())


def upload(folder: Path, name: str, private: bool) -> None:
    """Upload a folder; other files of the repository stay.

    Args:
        folder: A complete export.
        name: ``owner/name``; the repository is created if it does not exist.
        private: Make a new repository private; an existing one keeps its setting.

    Raises:
        UserError: If the hub cannot be reached, or rejects the name or the token.
    """
    try:
        HfApi().create_repo(name, private=private, exist_ok=True)
        HfApi().upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message=f"flowbert {__version__}",
        )
    # Names, tokens, rights and connections fail with a dozen unrelated types.
    except Exception as error:
        raise UserError(
            argument="push_to",
            received=name,
            expected=(
                "owner/name on the hub, online, and a token that may write to it, of `hf auth "
                f"login` or HF_TOKEN ({first_line(error)}); {folder} is written"
            ),
        ) from error
