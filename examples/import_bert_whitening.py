r"""A whitening of BERT-whitening's code as a model of flowbert.

python examples/import_bert_whitening.py theirs.npz runs/theirs --encoder DIR \
    --layers first_last --pooling mean

The file has ``kernel`` (D, k) and ``bias`` (D,), and no layers and pooling, which must be those of
its fit. BERT-whitening-pytorch sums two layers instead of averaging them: --scale 2. Its pickle
files are not read.
"""

import argparse

import numpy as np
import torch

from flowbert import Model, SentenceEncoder, Whitening


def main(words: list[str] | None = None) -> Model:
    """Write the model into a run folder, and return it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("run")
    parser.add_argument("--encoder", default="builtin-sample")
    parser.add_argument("--layers", required=True)
    parser.add_argument("--pooling", required=True)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args(words)

    with np.load(options.file, allow_pickle=False) as theirs:
        kernel = torch.from_numpy(options.scale * theirs["kernel"]).double()
        bias = torch.from_numpy(theirs["bias"].reshape(-1) / options.scale).double()
    # y = (x + bias) kernel
    state = {"center_": -bias, "weight_": kernel}
    fitted = Whitening(n_components=kernel.shape[1])
    fitted.set_state({**state, "n_features_in_": len(bias)})
    encoder = SentenceEncoder(
        options.encoder, layers=options.layers, pooling=options.pooling
    )
    model = Model(encoder, fitted)
    model.save(f"{options.run}/model")
    return model


if __name__ == "__main__":
    main()
