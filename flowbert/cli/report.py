"""``report``: run folders and results files -> a page to look at."""

from flowbert.cli.parser import ToolParser
from flowbert.runs.report import write_report

_RUNS = "Run folders of fit, their names on the hub (owner/name), results files of evaluate."
_EXAMPLE = """examples:
  python train.py report runs/flow_target/TIME                      # anew, also of a run that was interrupted
  python train.py report runs/flow_target/* results.json --output comparison.html"""


def make_parser() -> ToolParser:
    """Parser of ``report``."""
    parser = ToolParser(
        usage="train.py report RUN [RUN...] [options]",
        description="Write the page of a run, or one page over several that says what differs in their settings. "
        "fit and evaluate write theirs by themselves; nothing is encoded or fitted here.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("run", type=str, nargs="+", help=_RUNS)
    output = (
        "The page over several runs, or of one on the hub, default: comparison.html. The page of one run here lies "
        "with the run."
    )
    parser.add_argument("--output", type=str | None, default=None, help=output)
    return parser


def main(argv: list[str]) -> None:
    """Run ``report``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    options = make_parser().parse_args(argv[1:])
    print(f"written: {write_report(options.run, options.output)}")
