"""The parser of every command, and of fit for every method."""

from flowbert.cli import (
    advise,
    analyze,
    curve,
    encode,
    evaluate,
    export,
    import_model,
    mteb,
    report,
    reproduce,
    training,
)
from flowbert.cli.methods import METHODS

TOOLS = (advise, analyze, curve, encode, evaluate, export, import_model, mteb, report, reproduce)
PARSERS = {module.__name__.split(".")[-1]: module.make_parser() for module in TOOLS}
PARSERS |= {f"fit {name}": training.make_parser("fit", method) for name, method in METHODS.items()}
PARSERS |= {name: training.make_parser(name, METHODS["flow"]) for name in ("validate", "test", "predict")}
