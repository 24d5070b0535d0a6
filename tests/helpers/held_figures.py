"""Expected figures of the two real encoders, Spearman x 100: encoder, layers, method, aggregation -> by task."""

Key = tuple[str, str, str, str]
EXPECTED: dict[Key, list[float]] = {
    ("all-MiniLM-L6-v2", "last", "raw", "all"): [72.37, 80.60, 75.60, 85.39, 78.99, 82.03, 77.15],
    ("all-MiniLM-L6-v2", "last", "raw", "mean"): [70.00, 74.46, 75.94, 83.40, 81.32],
    ("all-MiniLM-L6-v2", "last", "raw", "wmean"): [71.06, 78.97, 77.23, 83.84, 81.21, 82.03, 77.15],
    ("all-MiniLM-L6-v2", "last", "whitening", "wmean"): [68.61, 77.56, 76.00, 81.36, 80.93, 80.27, 67.94],
    ("minilm-mlm", "last", "raw", "wmean"): [51.81, 46.64, 56.98, 65.10, 60.79, 57.90, 59.81],
    ("minilm-mlm", "first_last", "raw", "all"): [44.84, 54.25, 50.18, 70.53, 61.25, 57.08, 60.37],
    ("minilm-mlm", "first_last", "raw", "wmean"): [55.61, 50.93, 59.65, 67.97, 62.25, 57.08, 60.37],
    ("minilm-mlm", "first_last", "whitening", "all"): [49.55, 75.13, 65.79, 66.45, 68.34, 69.48, 59.46],
    ("minilm-mlm", "first_last", "whitening", "wmean"): [62.84, 69.63, 69.25, 74.00, 72.51, 69.48, 59.46],
    ("minilm-mlm", "first_last", "whitening-128", "wmean"): [62.05, 68.22, 67.22, 73.36, 70.57, 66.62, 61.92],
}
TOLERANCE = 0.02
