"""Figures of papers, and their reproduction."""
