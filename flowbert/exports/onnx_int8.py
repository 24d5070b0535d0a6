"""The ONNX graph with the encoder's weights in 8 bits."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sklearn.metrics.pairwise import paired_cosine_distances

from flowbert.exports.format import EXPORT_FORMATS
from flowbert.exports.onnx import GRAPH, ONNX, quiet_exporter
from flowbert.model import Model


@EXPORT_FORMATS.register("onnx-int8")
class ONNXInt8(ONNX):
    """The encoder's weights in 8 bits; the map stays in float32."""

    tolerance: ClassVar = 2.0
    has_loss: ClassVar = True

    def write(self, model: Model, folder: Path) -> None:
        """Write the graph, and quantize the encoder in it.

        Raises:
            UserError: As of :meth:`ONNX.write`.
        """
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        super().write(model, folder)
        path = folder / GRAPH
        nodes = list(onnx.load(path).graph.node)
        of_encoder = [
            index
            for index, node in enumerate(nodes)
            if any(name.startswith("encoder.") for name in node.input)
        ]
        # Not the map: whitening amplifies small directions, which 8 bits do not resolve.
        others = [node.name for node in nodes[of_encoder[-1] + 1 :]]
        smaller = folder / "int8.onnx"
        with quiet_exporter():
            quantize_dynamic(
                path,
                smaller,
                per_channel=True,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=others,
            )
        smaller.replace(path)

    def measured_limits(self, folder: Path, sentences: Sequence[str]) -> list[str]:
        """The effect of a batch, whose activations share one scale in 8 bits."""
        together, alone = (self.encode(folder, sentences, size) for size in (32, 1))
        cosine = 1 - paired_cosine_distances(together, alone).max()
        return [
            "A vector depends on the other sentences of its batch: the cosine of a sentence "
            f"alone and the same one in a batch of 32 is {cosine:.3f} or more for "
            f"{len(sentences)} texts. Encode sentences one by one where that matters."
        ]
