"""``export``: a fitted model as a folder that other programs open."""

from flowbert.cli.options import FITTED, add_options, call_arguments
from flowbert.cli.parser import ToolParser
from flowbert.runs.export import export

_EXAMPLE = """examples:
  python train.py export runs/quickstart/TIME --to my-model
  python train.py export runs/quickstart/TIME --to my-model --method whitening"""


def make_parser() -> ToolParser:
    """Parser of ``export``."""
    parser = ToolParser(
        usage="train.py export RUN_DIR --to DIR [options]",
        description="Write a fitted model as a folder of stock sentence-transformers modules, or as ONNX, and compare "
        "its vectors with the model's own, as anybody would open it, before saying so.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("fitted", type=str, help=FITTED)
    parser.add_argument("--to", type=str, required=True, help="Folder to write, which is not there yet.")
    parser.add_function_arguments(export, skip={"model", "to", "path"})
    add_options(parser, "encoder.path", defaults={"encoder.path": None})
    return parser


def main(argv: list[str]) -> None:
    """Run ``export``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    arguments = call_arguments(make_parser().parse_args(argv[1:]))
    made = export(arguments.pop("fitted"), path=arguments.pop("encoder").path, **arguments)
    print(f"written: {made.folder}" + (f"; its map has {made.floats:,} numbers" if made.floats else ""))
    if made.difference is not None:
        where = "onnxruntime" if arguments["format"].startswith("onnx") else "a process without flowbert"
        print(f"checked in {where}: cosines differ by at most {made.difference:.1e}")
    if made.url is not None:
        print(f"pushed: {made.url}" + (f" ({made.note})" if made.note else ""))
