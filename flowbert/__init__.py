"""flowbert: good sentence embeddings from frozen language models, without labels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from flowbert.data.corpus import load_corpus
    from flowbert.encoders import SentenceEncoder, WordVectors
    from flowbert.encoding import encode
    from flowbert.experiments.advise import advise
    from flowbert.experiments.analyze import analyze
    from flowbert.experiments.compare import compare
    from flowbert.experiments.reproduce import reproduce
    from flowbert.experiments.results import Results
    from flowbert.exports.export import export
    from flowbert.fitting import fit
    from flowbert.flows import Glow
    from flowbert.maps import (
        ZCA,
        Flow,
        LearnedRemoval,
        Standardization,
        Whitening,
        make_map,
    )
    from flowbert.maps.flow_module import FlowModule
    from flowbert.model import Model
    from flowbert.reports import report
    from flowbert.tasks import Pairs, load_task
    from flowbert.vectors import EmbeddingCache

_HOMES = {
    "EmbeddingCache": "vectors",
    "Flow": "maps",
    "FlowModule": "maps.flow_module",
    "Glow": "flows",
    "LearnedRemoval": "maps",
    "Model": "model",
    "Pairs": "tasks",
    "Results": "experiments",
    "SentenceEncoder": "encoders",
    "Standardization": "maps",
    "Whitening": "maps",
    "WordVectors": "encoders",
    "ZCA": "maps",
    "advise": "experiments.advise",
    "analyze": "experiments.analyze",
    "compare": "experiments",
    "encode": "encoding",
    "export": "exports",
    "fit": "fitting",
    "load_corpus": "data.corpus",
    "load_task": "tasks",
    "make_map": "maps",
    "report": "reports",
    "reproduce": "experiments.reproduce",
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
