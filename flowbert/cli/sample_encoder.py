"""``sample-encoder``: remake the tiny BERT that comes with the package."""

from flowbert.cli.parser import ToolParser
from flowbert.modules.sample_encoder import pretrain_sample_encoder
from flowbert.notices import quiet_lightning


def make_parser() -> ToolParser:
    """Parser of ``sample-encoder``."""
    parser = ToolParser(
        usage="train.py sample-encoder --output DIR [options]",
        description="Pretrain the tiny BERT of the built-in sample by masked language modelling on the sample corpus.",
    )
    parser.add_argument("--output", type=str, required=True, help="New or empty folder for the encoder.")
    parser.add_argument("--steps", type=int, default=3000, help="Training steps.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of weights, masks, dropout and shuffling.")
    return parser


def main(argv: list[str]) -> None:
    """Run ``sample-encoder``.

    Raises:
        UserError: For a mistake in the options, or if the folder holds something.
    """
    options = make_parser().parse_args(argv[1:])
    with quiet_lightning():
        found = pretrain_sample_encoder(options.output, seed=options.seed, steps=options.steps, progress=True)
    for moment in ("start", "end"):
        loss, accuracy = found[moment]["val/mlm_loss"], found[moment]["val/mlm_accuracy"]
        print(f"{moment}: held-out masked words: loss {loss:.3f} nats, accuracy {accuracy:.1%}")
    print(f"written: {options.output}")
