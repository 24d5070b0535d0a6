"""``encode``: sentences or a file -> one vector each, as .npy or .parquet."""

from flowbert.cli.options import add_encoder_options, add_options, check_output, chosen_device
from flowbert.cli.parser import ToolParser
from flowbert.runs.encode import encode

_EXAMPLE = """examples:
  python train.py encode --model runs/quickstart/TIME --input sentences.txt --output vectors.npy
  python train.py encode --encoder.path DIR --sentences '["A man rides.", "Nobody rides."]' --output vectors.parquet"""


def make_parser() -> ToolParser:
    """Parser of ``encode``."""
    parser = ToolParser(
        usage="train.py encode --output FILE [options]",
        description="Embed sentences with a fitted model (--model), or with a frozen encoder as it is (--encoder.*).",
        epilog=_EXAMPLE,
    )
    parser.add_argument("--output", type=str, required=True, help="File to write, ending in .npy or .parquet.")
    parser.add_function_arguments(encode, skip={"column", "output", "encoder", "device", "progress"})
    add_options(parser, "column", "device")
    add_encoder_options(parser)
    return parser


def main(argv: list[str]) -> None:
    """Run ``encode``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    options = make_parser().parse_args(argv[1:])
    output = check_output(options.output, (".npy", ".parquet"))
    asked = {name: options[name] for name in ("input", "column", "model", "method")}
    encoder, device = dict(options.encoder.as_dict()), chosen_device(options.device)
    vectors = encode(options.sentences, **asked, output=output, encoder=encoder, device=device, progress=True)
    print(f"{len(vectors)} vectors of size {vectors.shape[1]} written to {output}")
