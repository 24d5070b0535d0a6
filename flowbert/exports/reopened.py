"""Run as a program, away from this package: encode sentences with an exported folder as anybody else would.

python reopened.py FOLDER SENTENCES.json VECTORS.npy

After every batch a line says how many sentences it held.
"""

import json
import os
import sys

if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.modules["flowbert"] = None  # type: ignore[assignment]  # importing it fails
    import numpy as np
    from sentence_transformers import SentenceTransformer

    folder, sentences, vectors = sys.argv[1:]
    with open(sentences, encoding="utf-8") as file:
        texts = json.load(file)
    model = SentenceTransformer(folder, device="cpu")
    found = []
    for start in range(0, len(texts), 32):
        found.append(model.encode(texts[start : start + 32], batch_size=32, show_progress_bar=False))
        print(len(found[-1]), flush=True)
    np.save(vectors, np.concatenate(found))
