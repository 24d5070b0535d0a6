"""Losses: pure functions and thin modules over them; a new contrastive loss is one file and one line here."""

# The module, not its class: configurations and checkpoints name a loss by the path of its file.
from flowbert.losses import info_nce as info_nce
from flowbert.losses.nll import bits_per_dim as bits_per_dim
