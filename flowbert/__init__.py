"""flowbert: good sentence embeddings from frozen language models, without labels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from flowbert.data.corpus import load_corpus
    from flowbert.encoders import SentenceEncoder
    from flowbert.encoding import encode
    from flowbert.experiments.compare import compare
    from flowbert.experiments.results import Results
    from flowbert.extras.advice import advise
    from flowbert.extras.analysis.analyze import analyze
    from flowbert.extras.export.formats import export
    from flowbert.extras.maps.all_but_the_top import LearnedRemoval
    from flowbert.extras.papers.reproduce import reproduce
    from flowbert.extras.report import report
    from flowbert.extras.word_vectors import WordVectors
    from flowbert.fitting import fit
    from flowbert.flows import Glow
    from flowbert.maps import ZCA, Flow, Standardization, Whitening, make_map
    from flowbert.maps.flow_module import FlowModule
    from flowbert.model import Model
    from flowbert.tasks import Pairs, load_task
    from flowbert.vectors import EmbeddingCache

_HOMES = {
    "EmbeddingCache": "vectors",
    "Flow": "maps",
    "FlowModule": "maps.flow_module",
    "Glow": "flows",
    "LearnedRemoval": "extras.maps.all_but_the_top",
    "Model": "model",
    "Pairs": "tasks",
    "Results": "experiments",
    "SentenceEncoder": "encoders",
    "Standardization": "maps",
    "Whitening": "maps",
    "WordVectors": "extras.word_vectors",
    "ZCA": "maps",
    "advise": "extras.advice",
    "analyze": "extras.analysis.analyze",
    "compare": "experiments",
    "encode": "encoding",
    "export": "extras.export",
    "fit": "fitting",
    "load_corpus": "data.corpus",
    "load_task": "tasks",
    "make_map": "maps",
    "report": "extras.report",
    "reproduce": "extras.papers.reproduce",
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


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: ``import flowbert`` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'flowbert' has no attribute {name!r}")
    return getattr(import_module(f"flowbert.{_HOMES[name]}"), name)
