"""Readers of corpora, STS tasks, NLI pairs, answer files, and the built-in sample."""
