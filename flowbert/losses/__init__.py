"""Losses: pure functions and thin modules over them."""

from flowbert.losses.nll import bits_per_dim

__all__ = ["bits_per_dim"]
