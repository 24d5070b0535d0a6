"""``encode``: sentences or a file -> one vector each, as .npy or .parquet."""

import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
from jsonargparse import Namespace
from tqdm import tqdm

from flowbert.cli.options import add_encoder_options, add_options, check_output, chosen_device
from flowbert.cli.parser import ToolParser
from flowbert.data.readers import read_sentences
from flowbert.encoders import SentenceEncoder, resolve_layers
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.atomic import written_atomically
from flowbert.methods.embedder import Embedder, load_embedder

_SAMPLE = "builtin-sample"  # the default of --encoder.path: nothing was asked for
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
    group = parser.add_argument_group("What to embed")
    group.add_argument(
        "--input", type=str | None, default=None, help="Text file (a sentence a line) or table; globs too."
    )
    add_options(group, "column")
    group.add_argument("--sentences", type=list[str] | None, default=None, help="Sentences on the command line.")
    group.add_argument("--output", type=str, required=True, help="File to write, ending in .npy or .parquet.")
    model = parser.add_argument_group("With what")
    model.add_argument("--model", type=str | None, default=None, help="Run folder of a finished `fit`.")
    model.add_argument(
        "--method", type=str | None, default=None, help="Map of --model: flow (default), whitening or raw."
    )
    add_options(model, "device")
    add_encoder_options(parser)
    return parser


def main(argv: list[str]) -> None:
    """Run ``encode``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    parser = make_parser()
    options = parser.parse_args(argv[1:])
    output = check_output(options.output, "--output", (".npy", ".parquet"))
    if (options.input is None) == (options.sentences is None):
        raise UserError("--input, --sentences: received both or neither; allowed: one of them")
    sentences = _sentences(options)
    device = chosen_device(options.device)
    if options.model is not None:
        embedder = _load(options)
    elif options.method in (None, "raw"):
        embedder = Embedder(SentenceEncoder.from_pretrained(**options.encoder))
    else:
        raise UserError(f"--method: {options.method!r} needs --model, the run folder of a finished `fit`")
    embedder.encoder.to(device)
    with tqdm(total=len(sentences), desc="encoding", unit="sentence") as bar:
        vectors = embedder.encode(sentences, on_batch=bar.update)
    _write(output, sentences, vectors)
    print(f"{len(vectors)} vectors of size {vectors.shape[1]} written to {output}")


def _sentences(options: Namespace) -> list[str]:
    if options.sentences is not None:
        if not options.sentences:
            raise UserError("--sentences: received no sentence; allowed: at least one")
        return list(options.sentences)
    read = read_sentences(options.input, options.column)
    if read.blank:
        warnings.warn(
            f"{options.input}: {read.blank} blank lines dropped, so row i of the output is not line i",
            FlowbertWarning,
            2,
        )
    return list(read.sentences)


def _load(options: Namespace) -> Embedder:
    """The fitted model with its own encoder settings; only where the encoder lies may be told anew.

    Raises:
        UserError: If a setting other than in the fit is asked for.
    """
    asked = options.encoder
    embedder = load_embedder(options.model, options.method or "flow", None if asked.path == _SAMPLE else asked.path)
    encoder = embedder.encoder
    if asked.layers is not None and resolve_layers(asked.layers, encoder.num_layers) != encoder.layers:
        raise UserError(_not_as_fitted("layers", asked.layers, options.model, list(encoder.layers)))
    for name in ("pooling", "max_length"):
        if asked[name] is not None and asked[name] != getattr(encoder, name):
            raise UserError(_not_as_fitted(name, asked[name], options.model, getattr(encoder, name)))
    return embedder


def _not_as_fitted(name: str, received: object, model: str, fitted: object) -> str:
    return f"--encoder.{name}: received {received!r}; allowed with --model {model}: {fitted!r}, as fitted"


def _write(output: Path, sentences: list[str], vectors: npt.NDArray[np.float32]) -> None:
    with written_atomically(output) as temporary:
        if output.suffix == ".npy":
            np.save(temporary, vectors)
        else:
            import pyarrow
            import pyarrow.parquet

            table = pyarrow.table({"sentence": sentences, "embedding": list(vectors)})
            pyarrow.parquet.write_table(table, temporary)
