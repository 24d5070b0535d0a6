"""Speed beside peers (``python -m benchmarks``), and scripts of their own for quality, memory and other comparisons."""
