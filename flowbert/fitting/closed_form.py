"""Maps that are fitted in closed form, as a method beside those that a Trainer trains."""

from dataclasses import dataclass
from typing import Any

from flowbert.errors import UserError
from flowbert.experiments.run import fit_map
from flowbert.maps import LabelledPairs, Map, make_map
from flowbert.methods.method import RowsMethod


@dataclass(kw_only=True)
class ClosedForm(RowsMethod):
    """A map that is fitted on the vectors of a frozen encoder, or on given ones.

    Attributes:
        map: The map; fitted by :meth:`fit`.
    """

    without_effect = ("baseline", "checkpoint.*", "data.*", "model.*", "trainer.*")

    map: Any = None

    def __post_init__(self) -> None:
        self.map = make_map(self.options.method, "method")

    def open(self) -> None:
        """Load what is fitted on, and check the map for its vectors."""
        super().open()
        self.map.check(self.dim, "method")

    def fit(self, pairs: LabelledPairs | None) -> Map:
        """The fitted map.

        Raises:
            UserError: If it is undefined.
        """
        self.map, reason = fit_map(
            self.map,
            self.rows,
            pairs=pairs,
            seed=self.options.seed,
            device=self.device,
        )
        if reason is not None:
            raise UserError(f"{self.options.method}: {reason}", argument="method")
        fitted: Map = self.map
        return fitted
