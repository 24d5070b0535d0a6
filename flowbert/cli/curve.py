"""``curve``: how runs went, validation by validation, as a table and as a picture."""

from flowbert.cli.options import check_output
from flowbert.cli.parser import ToolParser
from flowbert.report.curve import training_curves
from flowbert.report.history import curves_to_markdown
from flowbert.report.style import PICTURES

_EXAMPLE = """examples:
  python train.py curve --runs runs/simcse_unsup/TIME
  python train.py curve --runs runs/a,runs/b --task STSB --output curve.svg"""


def make_parser() -> ToolParser:
    """Parser of ``curve``."""
    parser = ToolParser(
        usage="train.py curve --runs DIR[,DIR...] [options]",
        description="Spearman, alignment and uniformity on the development split at every validation of a fit.",
        epilog=_EXAMPLE,
    )
    parser.add_function_arguments(training_curves)
    return parser


def main(argv: list[str]) -> None:
    """Run ``curve``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    options = make_parser().parse_args(argv[1:])
    output = None if options.output is None else check_output(options.output, PICTURES)
    curves = training_curves(options.runs, task=options.task, aggregation=options.aggregation, output=output)
    what = f"{curves[0].task}, development split, aggregation {options.aggregation}"
    print(f"{what}; alignment and uniformity: lower is better")
    print(f"\n{curves_to_markdown(curves)}")
    if output is not None:
        print(f"written: {output}, {output.with_suffix('.csv')}")
