"""The grid of encoders, layers, methods, corpora and tasks, and its results in files."""
