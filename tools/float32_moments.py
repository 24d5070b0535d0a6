"""Errors of a covariance from float32 products, against float64, of the encoders in a folder.

    python -m tools.float32_moments DIR

The rows are centered in float64; blocks of them are multiplied in float32, and their products are
summed in pairs in float64. Eigenvalues are shares of the largest one.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor

from flowbert import SentenceEncoder, load_corpus


def covariance(x: Tensor, rows: int) -> Tensor:
    """Covariance of centered float32 rows, from blocks of ``rows`` of them."""
    sums = [(block.T @ block).double() for block in torch.split(x, rows)]
    while len(sums) > 1:
        pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
        sums = [torch.stack(pair).sum(0) for pair in pairs]
    whole: Tensor = sums[0] / (len(x) - 1)
    return whole


def main() -> None:
    """Print a row per encoder and size of the blocks."""
    root = Path(sys.argv[1])
    nli = str(root / "data/nli/snli-test.jsonl")
    sentences = load_corpus("nli", nli=nli).sentences[:12_000]
    print("encoder, rows: smallest eigenvalue in float64, in float32; largest error")
    for folder in sorted(root.glob("models/*/")):
        encoder = SentenceEncoder(str(folder), layers="last", pooling="mean")
        x = torch.as_tensor(encoder.encode(sentences)).double()
        x -= x.mean(0)
        exact = torch.linalg.eigvalsh(x.T @ x / (len(x) - 1))
        for rows in (256, 1024, 4096):
            values = torch.linalg.eigvalsh(covariance(x.float(), rows))
            shares = (exact[0], values[0], (values - exact).abs().max())
            errors = ", ".join(f"{share / exact[-1]:.1e}" for share in shares)
            print(f"{folder.name}, {rows}: {errors}")


if __name__ == "__main__":
    main()
