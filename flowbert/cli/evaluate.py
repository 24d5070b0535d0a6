"""``evaluate``: the options of :func:`flowbert.runs.compare`, its one call, and its tables."""

from inspect import signature

from flowbert.calibration import methods
from flowbert.cli.options import OPTIONS, add_encoder_options, add_options, call_arguments
from flowbert.cli.parser import ToolParser
from flowbert.report.comparison import print_comparison
from flowbert.runs.compare import compare
from flowbert.tasks import KINDS

_METHODS = ", ".join(f"{name}[-K]" if found.size_option else name for name, found in methods().items())
_EXAMPLE = f"""examples:
  python train.py evaluate --encoder.path DIR --encoder.layers first_last --methods raw,whitening,whitening-128 \\
      --corpus target --tasks STS13,STSB --senteval DIR --output results.json
  python train.py evaluate --config configs/compare.yaml --encoder.path DIR --tasks STSB,SICKR --senteval DIR

encoder.layers: singles, pairs, triples stand for all settings of so many layers.
encoder.path: text files of word vectors (GloVe, word2vec; .gz too) are averaged, with --encoder.pooling sif by
  frequency.
methods: {_METHODS}, flow, given;
  learned-removal learns from labels; options after colons: whitening:shrinkage=0.1, whitening:exponent=-0.35,
  nulling-3:standardize=true, flow:mixing=reverse:epochs=1; compositions: whitening-128+flow.
tasks: SAMPLE, or KIND:SAMPLE for another kind of figures: {", ".join(KINDS)}.
Beside FILE.json stand FILE.md, FILE.csv and FILE.scores/ (similarities). A run that finds figures of equal settings in
FILE.json computes only the others."""


def make_parser() -> ToolParser:
    """Parser of ``evaluate``."""
    parser = ToolParser(
        usage="train.py evaluate [options]",
        description="Lay methods side by side on the same pairs, from one frozen pass of each encoder: a table with "
        "95% confidence intervals, a verdict, results.json.",
        epilog=_EXAMPLE,
    )
    add_encoder_options(parser, several=True)
    words = parser.add_argument_group("Word vectors")
    words.add_argument("--encoder.max_words", type=int | None, default=None, help="Read only the first ones.")
    shared = [name for name in OPTIONS if name in signature(compare).parameters]
    add_options(parser.add_argument_group("What to compare, and how"), *shared, several=True)
    parser.add_function_arguments(compare, skip={"encoder", *shared})
    return parser


def main(argv: list[str]) -> None:
    """Run ``evaluate``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    arguments = call_arguments(make_parser().parse_args(argv[1:]), (".json",))
    output = arguments["output"]
    print_comparison(compare(**arguments))
    files = [output.with_suffix(kind) for kind in (".json", ".md", ".csv", ".html")]
    print("written: " + ", ".join(str(file) for file in files if file.is_file()))
