"""Import of a whitening fitted with the code of BERT-whitening."""

from pathlib import Path

from flowbert.data.text_files import user_path
from flowbert.encoders import Encoder, EncoderOptions, open_encoder
from flowbert.errors import UserError
from flowbert.maps import KernelMap
from flowbert.model import Model


def import_whitening(
    source: str | Path,
    encoder: EncoderOptions | Encoder,
    output: str | Path,
    *,
    scale: float = 1.0,
) -> Model:
    """Import kernel and bias of BERT-whitening as a model for all commands.

    Args:
        source: An .npz file with ``kernel`` and ``bias``, or a folder with kernel.npy and bias.npy.
        encoder: The encoder, with the layers and the pooling that kernel and bias were fitted on.
        output: New run folder to write.
        scale: Factor between the vectors of the fit and those of the encoder: 2 for
            ``first_last_avg`` and ``last2avg`` of BERT-whitening-pytorch, which sum two layers.

    Returns:
        The model, saved in ``output/model``.

    Raises:
        UserError: If the file cannot be read, layers or pooling are not set, or the kernel is for
            vectors of another size.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> np.savez(f"{folder}/w.npz", kernel=np.eye(128)[:, :32], bias=np.zeros(128))
        >>> options = EncoderOptions(layers="first_last", pooling="mean")
        >>> model = import_whitening(f"{folder}/w.npz", options, f"{folder}/run")
        >>> model.encode("a dog runs").shape
        (32,)
    """
    if scale <= 0:
        raise UserError(argument="scale", received=scale, expected="a number above 0")
    folder = user_path(output) / "model"
    if folder.exists():
        raise UserError(
            f"received {output}, which holds a model; expected a new folder",
            argument="output",
        )
    if isinstance(encoder, EncoderOptions):
        for name in ("layers", "pooling"):
            if getattr(encoder, name) is None:
                raise UserError(
                    "received none; expected those of the kernel", argument=name
                )
    fitted = KernelMap.read(source, scale)
    opened = open_encoder(encoder)
    if fitted.n_features_in_ != opened.dim:
        raise UserError(
            f"received a kernel for vectors of size {fitted.n_features_in_}; expected "
            f"{opened.dim}, as of the encoder",
            argument="source",
        )
    model = Model(opened, fitted)
    model.save(folder)
    return model
