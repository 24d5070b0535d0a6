"""flowbert: sentence embeddings from frozen language models by flows and closed-form calibration."""

__version__ = "0.1.0"
