"""BERT-flow as a method of ``fit``: a flow on the vectors of a frozen encoder."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from flowbert.flows.coupling import COUPLINGS
from flowbert.flows.mixing import MIXINGS
from flowbert.maps.flow_module import FlowModule
from flowbert.methods.method import RowsMethod
from flowbert.registry import Registry
from flowbert.training.rows import RowsDataModule


class FlowMethod(RowsMethod):
    """A flow on the vectors of a frozen encoder, or on given ones."""

    name = "flow"
    module_class = FlowModule
    data_class = RowsDataModule
    registries: ClassVar[Mapping[str, Registry[Any]]] = {
        "coupling": COUPLINGS,
        "mixing": MIXINGS,
    }

    def open(self) -> None:
        """Load what is fitted on, and make the module."""
        super().open()
        self.module = FlowModule(**{**(self.options.model or {}), "dim": self.dim})
        self.settings.add(**self.module.model_settings())

    def encode(self, sentences: Sequence[str]) -> None:
        """Encode what is fitted on and further sentences, and make the data module."""
        super().encode(sentences)
        named = {"seed": self.options.seed, "name": self.corpus, "digest": self.digest}
        self.data = RowsDataModule(self.rows, **{**(self.options.data or {}), **named})
