"""Removals of directions, transformers of scikit-learn as maps."""
