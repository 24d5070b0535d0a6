"""The ONNX graph with the encoder's weights in 8 bits."""

from pathlib import Path
from typing import ClassVar

from flowbert.exports.format import EXPORT_FORMATS
from flowbert.exports.onnx import GRAPH, ONNX, quiet_exporter
from flowbert.model import Model


@EXPORT_FORMATS.register("onnx-int8")
class ONNXInt8(ONNX):
    """The encoder's weights in 8 bits; the map stays in float32."""

    # What 8 bits cost is no error; the card states it.
    tolerance: ClassVar = 2.0

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
        # Whitening amplifies small directions, which 8 bits do not resolve.
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
