"""``analyze``: word space, sentence space and how Gaussian the maps' results are, as tables and pictures."""

from flowbert.cli.options import add_encoder_options, add_options, call_arguments
from flowbert.cli.parser import ToolParser
from flowbert.report.analysis import analysis_to_text
from flowbert.runs.analyze import analyze

_EXAMPLE = """examples:
  python train.py analyze --encoder.path DIR --encoder.layers first_last --corpus sentences.txt --output analysis
  python train.py analyze --encoder.path DIR --methods raw,flow --flow runs/flow_target/TIME --corpus sentences.txt
  python train.py analyze --encoder.path DIR --corpus sentences.txt --tasks STSB --split dev --senteval DIR"""

_SHARED = ("column", "nli", "senteval", "seed", "store_dir", "device")


def make_parser() -> ToolParser:
    """Parser of ``analyze``."""
    parser = ToolParser(
        usage="train.py analyze --encoder.path DIR --corpus FILE [options]",
        description="Measure the spaces of an encoder before and after its maps, on sentences that no map was fitted "
        "on: word embeddings by frequency, spectrum, isotropy, hubness, norms, how Gaussian, bits per dimension, "
        "neighbours, a map of the corpus, cosines by gold score.",
        epilog=_EXAMPLE,
    )
    add_encoder_options(parser)
    parser.add_function_arguments(analyze, skip={"encoder", *_SHARED})
    add_options(parser, *_SHARED)
    return parser


def main(argv: list[str]) -> None:
    """Run ``analyze``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    arguments = call_arguments(make_parser().parse_args(argv[1:]))
    print(analysis_to_text(analyze(**arguments)))
    if arguments["output"] is not None:
        print(f"\nwritten: {arguments['output']}: tables as .csv, pictures as .svg and .png with their data as .csv")
