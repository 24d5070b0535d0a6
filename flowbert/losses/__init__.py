"""Losses: pure functions and thin modules over them; a new contrastive loss is one file and one line here."""

from flowbert.losses.info_nce import InfoNCE
from flowbert.losses.nll import bits_per_dim

__all__ = ["InfoNCE", "bits_per_dim"]
