"""flowbert: good sentence embeddings from frozen language models, without labels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from flowbert.analysis.advise import advise
    from flowbert.analysis.analyze import analyze
    from flowbert.data.corpus import load_corpus
    from flowbert.encoders import EmbeddingCache, SentenceEncoder, WordVectors
    from flowbert.encoding import encode
    from flowbert.evaluation.compare import compare
    from flowbert.evaluation.reproduce import reproduce
    from flowbert.evaluation.results import Results
    from flowbert.exports.export import export
    from flowbert.exports.imports import import_whitening
    from flowbert.flows import Glow
    from flowbert.maps import (
        ZCA,
        Flow,
        LearnedRemoval,
        Standardization,
        Whitening,
        make_map,
    )
    from flowbert.model import Model
    from flowbert.modules.flow import FlowModule
    from flowbert.reports import report
    from flowbert.tasks import Pairs, load_task
    from flowbert.training import fit

_HOMES = {
    "EmbeddingCache": "encoders",
    "Flow": "maps",
    "FlowModule": "modules.flow",
    "Glow": "flows",
    "LearnedRemoval": "maps",
    "Model": "model",
    "Pairs": "tasks",
    "Results": "evaluation",
    "SentenceEncoder": "encoders",
    "Standardization": "maps",
    "Whitening": "maps",
    "WordVectors": "encoders",
    "ZCA": "maps",
    "advise": "analysis.advise",
    "analyze": "analysis.analyze",
    "compare": "evaluation",
    "encode": "encoding",
    "export": "exports",
    "fit": "training",
    "import_whitening": "exports",
    "load_corpus": "data.corpus",
    "load_task": "tasks",
    "make_map": "maps",
    "report": "reports",
    "reproduce": "evaluation.reproduce",
}

__all__ = [
    "ZCA",
    "EmbeddingCache",
    "Flow",
    "FlowModule",
    "Glow",
    "LearnedRemoval",
    "Model",
    "Pairs",
    "Results",
    "SentenceEncoder",
    "Standardization",
    "Whitening",
    "WordVectors",
    "advise",
    "analyze",
    "compare",
    "encode",
    "export",
    "fit",
    "import_whitening",
    "load_corpus",
    "load_task",
    "make_map",
    "report",
    "reproduce",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: ``import flowbert`` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'flowbert' has no attribute {name!r}")
    return getattr(import_module(f"flowbert.{_HOMES[name]}"), name)
