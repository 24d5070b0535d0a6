"""Speed beside peers: ``python -m benchmarks``. Growth and vector search: scripts of their own."""
