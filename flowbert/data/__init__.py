"""Readers of corpora, STS tasks, NLI pairs and answer files, and the built-in sample."""
