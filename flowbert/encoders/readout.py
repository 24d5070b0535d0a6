"""What is read of a network: which layers are averaged, and how their tokens are pooled."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flowbert.encoders.cpu import Packing
from flowbert.encoders.layers import Layers
from flowbert.encoders.pooling import NetworkPooling, Pooling

TokenFeatures = Mapping[str, Tensor]


class Readout(NamedTuple):
    """Layers and pooling of a sentence's vector; readouts of one pass share its hidden states.

    Args:
        layers: Indices of the layers that are averaged.
        pooling: Pooling over tokens, bound to the vocabulary.
    """

    layers: Layers
    pooling: Pooling

    @property
    def linear(self) -> bool:
        """Whether its vectors are the averages of those of its layers alone."""
        return self.pooling.linear

    def __call__(
        self,
        outputs: Sequence[Any],
        chunks: Sequence[TokenFeatures],
        packing: Packing | None = None,
    ) -> Tensor:
        """Vectors of the sentences of all chunks, ``(B, D)``, float32.

        Args:
            outputs: Output of the network for each chunk, or for all of them packed.
            chunks: Token features, each ``(b, t)``.
            packing: How the chunks were packed.
        """
        if isinstance(self.pooling, NetworkPooling):
            return torch.cat([output.pooler_output.float() for output in outputs])
        states = [average_layers(each.hidden_states, self.layers) for each in outputs]
        if packing is not None:
            states = packing.unpack(states[0])
        return torch.cat(
            [
                self.pooling(tokens, chunk["attention_mask"], chunk["input_ids"])
                for tokens, chunk in zip(states, chunks, strict=True)
            ]
        )


def average_layers(states: Sequence[Tensor], layers: Sequence[int]) -> Tensor:
    r"""Average of layers in float32, :math:`\frac{1}{|S|} \sum_{k \in S} h_k`.

    Args:
        states: L + 1 tensors of shape ``(B, T, D)``.
        layers: Indices into them.
    """
    mixed = states[layers[0]].float()
    for layer in layers[1:]:
        mixed = mixed + states[layer].float()
    return mixed / len(layers) if len(layers) > 1 else mixed
