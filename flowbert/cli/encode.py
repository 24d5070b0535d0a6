"""``encode``: sentences, a file of them or of vectors -> one vector each."""

from jsonargparse import Namespace

from flowbert.cli.options import add_encoder_options, add_options, check_output, chosen_device
from flowbert.cli.parser import ToolParser
from flowbert.errors import UserError
from flowbert.processes import leave_to_first
from flowbert.runs.encode import encode
from flowbert.runs.encode_parts import encode_parts
from flowbert.runs.encode_vectors import encode_vectors
from flowbert.runs.vector_options import refuse_with_vectors
from flowbert.vectors import WRITABLE
from flowbert.vectors.manifest import MANIFEST

_OUTPUT = f"File to write, ending in {', '.join(WRITABLE)}; or FOLDER/ for a part of each input file, and a manifest."
_EXAMPLE = """examples:
  python train.py encode --model runs/quickstart/TIME --input sentences.txt --output vectors.npy
  python train.py encode --encoder.path DIR --sentences '["A man rides.", "Nobody rides."]' --output vectors.parquet
  python train.py encode --model RUN --vectors new.npy --output mapped.npy --precision int8
  torchrun --nproc_per_node 2 train.py encode --encoder.path DIR --input 'corpus/*.parquet' --output vectors/"""


def make_parser() -> ToolParser:
    """Parser of ``encode``."""
    parser = ToolParser(
        usage="train.py encode --output FILE [options]",
        description="Embed sentences with a fitted model (--model), or with a frozen encoder as it is (--encoder.*); "
        "or map vectors from elsewhere (--vectors).",
        epilog=_EXAMPLE,
    )
    parser.add_argument("--output", type=str, required=True, help=_OUTPUT)
    parser.add_function_arguments(encode, skip={"column", "output", "encoder", "device"})
    add_options(parser, "vectors", "column", "device")
    add_encoder_options(parser)
    return parser


def main(argv: list[str]) -> None:
    """Run ``encode``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    options = make_parser().parse_args(argv[1:])
    if options.output.endswith("/"):
        _in_parts(options)
        return
    leave_to_first()
    output = check_output(options.output, tuple(WRITABLE))
    asked = {name: options[name] for name in ("column", "model", "method", "precision")}
    asked |= {"output": output, "device": chosen_device(options.device)}
    encoder = dict(options.encoder.as_dict())
    if options.vectors is None:
        rows, dim = encode(options.sentences, input=options.input, encoder=encoder, **asked).shape
    else:
        refuse_with_vectors(sentences=options.sentences, input=options.input, encoder=encoder)
        rows, dim = encode_vectors(options.vectors, **asked)
    size = f"{dim} bytes, a bit for each dimension" if options.precision == "binary" else f"size {dim}"
    print(f"{rows} vectors of {size} written to {output}")


def _in_parts(options: Namespace) -> None:
    """A corpus past memory, on every process that torchrun has started."""
    for name in ("vectors", "sentences"):
        if options[name] is not None:
            raise UserError(f"{name}: received beside a folder as output; allowed: --input, or a file as output")
    if options.input is None:
        raise UserError("input: received nothing; allowed with a folder as output: files, a glob, or hub:NAME")
    if options.precision != "float32":
        raise UserError(f"precision: received {options.precision}; allowed with a folder as output: float32")
    asked = {name: options[name] for name in ("column", "model", "method")}
    encoder, device = dict(options.encoder.as_dict()), chosen_device(options.device)
    rows, dim = encode_parts(options.input, options.output, encoder=encoder, device=device, **asked)
    leave_to_first()
    print(f"{rows} vectors of size {dim} written to {options.output}{MANIFEST}")
