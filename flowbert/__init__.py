"""flowbert: good sentence embeddings from frozen language models, by flows and closed-form calibration."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from flowbert.calibration import Whitening as Whitening
    from flowbert.data.corpus import load_corpus as load_corpus
    from flowbert.data.sts import load_task as load_task
    from flowbert.encoders import SentenceEncoder as SentenceEncoder
    from flowbert.flows import Glow as Glow
    from flowbert.methods import load as load
    from flowbert.methods import make_calibration as make_calibration
    from flowbert.methods.flow import fit_flow as fit_flow
    from flowbert.modules import FlowModule as FlowModule
    from flowbert.report.curve import training_curves as training_curves
    from flowbert.runs.advise import advise as advise
    from flowbert.runs.analyze import analyze as analyze
    from flowbert.runs.compare import compare as compare
    from flowbert.runs.encode import encode as encode
    from flowbert.runs.encode_vectors import encode_vectors as encode_vectors
    from flowbert.runs.export import export as export
    from flowbert.runs.fit import fit as fit
    from flowbert.runs.import_model import import_model as import_model
    from flowbert.runs.report import write_report as write_report
    from flowbert.runs.reproduce import reproduce as reproduce
    from flowbert.tasks import evaluate_task as evaluate_task
    from flowbert.vectors import VectorTable as VectorTable

_WHERE = {
    "FlowModule": "flowbert.modules",
    "Glow": "flowbert.flows",
    "SentenceEncoder": "flowbert.encoders",
    "VectorTable": "flowbert.vectors",
    "Whitening": "flowbert.calibration",
    "advise": "flowbert.runs.advise",
    "analyze": "flowbert.runs.analyze",
    "compare": "flowbert.runs.compare",
    "encode": "flowbert.runs.encode",
    "encode_vectors": "flowbert.runs.encode_vectors",
    "evaluate_task": "flowbert.tasks",
    "export": "flowbert.runs.export",
    "fit": "flowbert.runs.fit",
    "fit_flow": "flowbert.methods.flow",
    "import_model": "flowbert.runs.import_model",
    "load": "flowbert.methods",
    "load_corpus": "flowbert.data.corpus",
    "load_task": "flowbert.data.sts",
    "make_calibration": "flowbert.methods",
    "reproduce": "flowbert.runs.reproduce",
    "training_curves": "flowbert.report.curve",
    "write_report": "flowbert.runs.report",
}
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the command line's help does not wait for torch."""
    if name not in _WHERE:
        raise AttributeError(f"module 'flowbert' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
