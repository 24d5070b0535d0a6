"""``reproduce``: published rows with their setting here, ours beside theirs."""

from flowbert.cli.options import add_options, check_output, chosen_device
from flowbert.cli.parser import ToolParser
from flowbert.errors import UserError
from flowbert.reproduction import published_row, published_rows, reproduce
from flowbert.reproduction.comparison import write_reproductions

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
    rows.add_argument("--table", type=str | None, default=None, help="Source or table: li2020, li2020-2, su2021, ...")
    rows.add_argument("--rows", type=str | list[str] | None, default=None, help="Ids of rows, comma-separated.")
    add_options(parser.add_argument_group("The encoder"), "encoder.path", defaults={"encoder.path": None})
    add_options(parser.add_argument_group("The data"), "tasks", "senteval", "nli")
    add_options(
        parser.add_argument_group("The run"),
        *("seeds", "output", "bootstrap", "bootstrap_seed", "store_dir", "device"),
        defaults={"output": "reproduce.json"},
    )
    return parser


def main(argv: list[str]) -> None:
    """Run ``reproduce``.

    Raises:
        UserError: For every mistake in the options, or if no row can be run.
    """
    options = make_parser().parse_args(argv[1:])
    if options.list:
        for row in published_rows():
            print(f"{row.id}\n  {row.setting}")
        return
    if options.explain is not None:
        print(published_row(options.explain).explain())
        return
    output = check_output(options.output, "--output", (".json",))
    found = reproduce(
        options.rows,
        table=options.table,
        encoder=options.encoder.path,
        senteval=options.senteval,
        nli=options.nli,
        tasks=options.tasks,
        seeds=options.seeds,
        bootstrap=options.bootstrap,
        bootstrap_seed=options.bootstrap_seed,
        output=output,
        store_dir=options.store_dir,
        device=chosen_device(options.device),
    )
    for each in found:
        print(each.text())
    files = write_reproductions(found, output)
    if not any(each.comparisons for each in found):
        raise UserError(f"none of the {len(found)} rows could be run; the notes above say why")
    print(f"written: {output}, {', '.join(map(str, files))}")
