"""``advise``: which layers, pooling and map to take for a corpus, as a table and as a file that ``fit`` takes."""

from flowbert.cli.options import add_encoder_options, add_options, call_arguments
from flowbert.cli.parser import ToolParser
from flowbert.report.advice import advice_to_text
from flowbert.runs.advise import advise

_EXAMPLE = """examples:
  python train.py advise --encoder.path DIR --corpus sentences.txt
  python train.py fit --config advice.yaml

Layers and pooling are what is chosen, so there is no option for them."""


def make_parser() -> ToolParser:
    """Parser of ``advise``."""
    parser = ToolParser(
        usage="train.py advise --encoder.path DIR --corpus FILE [options]",
        description="Choose layers, pooling and map for your sentences, from these alone: a table of settings with a "
        "criterion that needs no labels, two lines of reason, and a YAML file that fit takes as it stands.",
        epilog=_EXAMPLE,
    )
    add_encoder_options(parser, without=("encoder.layers", "encoder.pooling", "encoder.counts"))
    corpus = "Your sentences: files (a path, a glob, a comma-separated list), hub:NAME, nli, or builtin-sample."
    parser.add_argument("--corpus", type=str, default="builtin-sample", help=corpus)
    parser.add_argument("--output", type=str, default="advice.yaml", help="YAML file to write, which fit takes.")
    add_options(parser, "column", "nli", "seed", "store_dir", "device")
    return parser


def main(argv: list[str]) -> None:
    """Run ``advise``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    arguments = call_arguments(make_parser().parse_args(argv[1:]), (".yaml", ".yml"))
    advice = advise(**arguments)
    print(advice_to_text(advice))
    use = "" if advice.best.method == "raw" else f"; use it: python train.py fit --config {arguments['output']}"
    print(f"written: {arguments['output']}{use}")
