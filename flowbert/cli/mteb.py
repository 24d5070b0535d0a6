"""``mteb``: MTEB's own evaluation of a fitted model."""

from flowbert.cli.options import FITTED, add_options, call_arguments
from flowbert.cli.parser import ToolParser
from flowbert.runs.mteb import mteb

_EXAMPLE = """examples:
  python train.py mteb runs/quickstart/TIME --tasks STSBenchmark,SICK-R --senteval DIR
  python train.py mteb DIR --tasks Banking77Classification   (an encoder as it is; the data come from the hub)"""


def make_parser() -> ToolParser:
    """Parser of ``mteb``."""
    parser = ToolParser(
        usage="train.py mteb MODEL [options]",
        description="Run MTEB's own evaluation on a fitted model, an export or an encoder, and write its result files. "
        "It needs: pip install 'flowbert[mteb]'.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("fitted", type=str, help=FITTED)
    parser.add_function_arguments(mteb, skip={"model", "senteval", "device"})
    add_options(parser, "senteval", "device")
    return parser


def main(argv: list[str]) -> None:
    """Run ``mteb``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    arguments = call_arguments(make_parser().parse_args(argv[1:]))
    for name, score in mteb(arguments.pop("fitted"), **arguments).items():
        print(f"{name:30} {100 * score:6.2f}")
    print(f"main scores x 100; written: {arguments['output']}/results, scores.json")
