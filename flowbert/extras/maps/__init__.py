"""Removals of directions, and transformers of scikit-learn as maps."""
