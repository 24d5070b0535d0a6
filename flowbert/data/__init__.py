"""Readers of corpora, STS tasks and NLI pairs, the built-in sample, the embedding store, and the data modules."""
