"""Removals of directions."""
