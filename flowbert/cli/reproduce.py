"""``reproduce``: published rows with their setting here, ours beside theirs."""

from inspect import signature

from flowbert.cli.options import OPTIONS, add_options, call_arguments
from flowbert.cli.parser import ToolParser
from flowbert.errors import UserError
from flowbert.reproduction import published_row, published_rows
from flowbert.reproduction.comparison import write_reproductions
from flowbert.runs.reproduce import reproduce

_EXAMPLE = """examples:
  python train.py reproduce --list
  python train.py reproduce --explain li2020-2-bert-base-uncased-flow-target
  python train.py reproduce --table li2020 --encoder.path bert-base-uncased --senteval DIR --nli hub
  python train.py reproduce --table su2021 --encoder.path DIR --senteval DIR   (DIR in place of each published encoder)

encoder.path: the name of a published encoder chooses its rows; a folder, run folder or file of word vectors takes the
  place of every published encoder, whose figures are context then, unless the folder has the encoder's name."""


def make_parser() -> ToolParser:
    """Parser of ``reproduce``."""
    parser = ToolParser(
        usage="train.py reproduce [options]",
        description="Run published rows with their exact setting and lay ours beside theirs. A row whose encoder "
        "cannot be had says so, and the rest runs.",
        epilog=_EXAMPLE,
    )
    rows = parser.add_argument_group("Which rows")
    rows.add_argument("--list", action="store_true", help="Print every row with its setting, and stop.")
    rows.add_argument("--explain", type=str | None, default=None, help="Print a row with each ambiguity, and stop.")
    shared = [name for name in OPTIONS if name in signature(reproduce).parameters]
    parser.add_function_arguments(reproduce, skip={"encoder", *shared})
    defaults = {"encoder.path": None, "output": "reproduce.json"}
    add_options(parser.add_argument_group("The run"), "encoder.path", *shared, defaults=defaults)
    return parser


def main(argv: list[str]) -> None:
    """Run ``reproduce``.

    Raises:
        UserError: For every mistake in the options, or if no row can be run.
    """
    options = make_parser().parse_args(argv[1:])
    show_all, row = options.pop("list"), options.pop("explain")
    if show_all:
        for each in published_rows():
            print(f"{each.id}\n  {each.setting}")
        return
    if row is not None:
        print(published_row(row).explain())
        return
    arguments = call_arguments(options, (".json",))
    output = arguments["output"]
    found = reproduce(encoder=arguments.pop("encoder").path, **arguments)
    for reproduction in found:
        print(reproduction.text())
    files = write_reproductions(found, output)
    if not any(each.comparisons for each in found):
        raise UserError(f"none of the {len(found)} rows could be run; the notes above say why")
    page = output.with_suffix(".html")
    print("written: " + ", ".join(map(str, [output, *files, *([page] if page.is_file() else [])])))
