"""flowbert: good sentence embeddings from frozen language models, by flows and closed-form calibration."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from flowbert.calibration import Calibration, Whitening
    from flowbert.data.corpus import load_corpus
    from flowbert.data.sts import load_task
    from flowbert.encoders import SentenceEncoder
    from flowbert.flows import Glow
    from flowbert.methods import fit_flow, make_calibration
    from flowbert.methods.embedder import Embedder, load_embedder
    from flowbert.modules import FlowModule
    from flowbert.tasks import evaluate_task

_WHERE = {
    "Calibration": "flowbert.calibration",
    "Embedder": "flowbert.methods.embedder",
    "FlowModule": "flowbert.modules",
    "Glow": "flowbert.flows",
    "SentenceEncoder": "flowbert.encoders",
    "Whitening": "flowbert.calibration",
    "evaluate_task": "flowbert.tasks",
    "fit_flow": "flowbert.methods",
    "load_corpus": "flowbert.data.corpus",
    "load_embedder": "flowbert.methods.embedder",
    "load_task": "flowbert.data.sts",
    "make_calibration": "flowbert.methods",
}
__all__ = [
    "Calibration",
    "Embedder",
    "FlowModule",
    "Glow",
    "SentenceEncoder",
    "Whitening",
    "__version__",
    "evaluate_task",
    "fit_flow",
    "load_corpus",
    "load_embedder",
    "load_task",
    "make_calibration",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the command line's help does not wait for torch."""
    if name not in _WHERE:
        raise AttributeError(f"module 'flowbert' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
