"""Which layers, token weights and map to take for a corpus, from its sentences alone."""
