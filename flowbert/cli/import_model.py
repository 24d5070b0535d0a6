"""``import``: a map that others' code fitted -> a run folder."""

from flowbert.cli.options import add_encoder_options
from flowbert.cli.parser import ToolParser
from flowbert.runs.import_model import import_model

_EXAMPLE = """examples:
  python train.py import --from output/ --encoder.path bert-base-uncased --run_dir runs/theirs
  python train.py import --from whitening.npz --encoder.path bert-base-uncased --encoder.layers first_last \\
      --encoder.pooling mean --encoder.max_length 64
  python train.py encode --model runs/theirs --input sentences.txt --output vectors.npy"""


def make_parser() -> ToolParser:
    """Parser of ``import``."""
    parser = ToolParser(
        usage="train.py import --from FILE --encoder.path DIR [options]",
        description="Make a run folder of a map that was fitted elsewhere, for encode, export and evaluate.",
        epilog=_EXAMPLE,
    )
    source = (
        "The flow of pytorch-bertflow (glow.bin, or the folder that it saved), or kernel and bias of BERT-whitening "
        "(an .npz file, or a folder with kernel.npy and bias.npy). Nothing pickled is read."
    )
    parser.add_argument("--from", type=str, required=True, help=source)
    parser.add_argument("--run_dir", type=str | None, default=None, help="Folder for everything the run writes.")
    scale = (
        "How much longer than ours the vectors were that a whitening was fitted on: 2 for first_last_avg and last2avg "
        "of BERT-whitening-pytorch, which add two layers."
    )
    parser.add_argument("--scale", type=float, default=1.0, help=scale)
    add_encoder_options(parser)
    return parser


def main(argv: list[str]) -> None:
    """Run ``import``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    options = make_parser().parse_args(argv[1:])
    run = import_model(options["from"], dict(options.encoder.as_dict()), options.run_dir, scale=options.scale)
    print(f"written: {run}; use it: python train.py encode --model {run} --input FILE --output vectors.npy")
