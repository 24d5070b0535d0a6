"""A fitted model in forms that other programs open: a sentence-transformers folder, ONNX, the hub."""
