"""Does an export give the vectors of the model it was made from? Asked in a process without this package."""

import importlib.util
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flowbert.data.sample import sample_corpus
from flowbert.errors import UserError
from flowbert.exports import reopened
from flowbert.methods.embedder import Embedder
from flowbert.progress import progress

SENTENCES = 256
LARGEST_DIFFERENCE = 1e-5  # of a cosine


def check_folder(folder: Path, model: Embedder) -> float:
    """Largest difference of a cosine between a sentence-transformers folder and the model, over texts of all lengths.

    Raises:
        UserError: If sentence-transformers is not installed or cannot open the folder, or the difference is too large.
    """
    sentences = trial_sentences(model)
    return compared(model.encode(sentences), vectors_elsewhere(folder, sentences), LARGEST_DIFFERENCE)


def vectors_elsewhere(folder: Path, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
    """Vectors that a sentence-transformers folder gives in a fresh process that cannot import this package.

    Raises:
        UserError: If sentence-transformers is not installed or cannot open the folder.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise UserError(
            "check: sentence-transformers is not installed, and the folder cannot be opened to compare its vectors; "
            "allowed: pip install 'flowbert[export]', or no check"
        )
    with tempfile.TemporaryDirectory() as scratch:
        texts, vectors = Path(scratch) / "sentences.json", Path(scratch) / "vectors.npy"
        texts.write_text(json.dumps(sentences), encoding="utf-8")
        command = [sys.executable, str(reopened.__file__), str(folder.resolve()), str(texts), str(vectors)]
        errors = Path(scratch) / "errors.txt"
        with (
            errors.open("wb") as stderr,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=scratch) as process,
            progress(len(sentences), "Encoding with sentence-transformers", "sentences") as step,
        ):
            for line in process.stdout or ():
                step.update(int(line) if line.strip().isdigit() else 0)  # a library may say something, too
        if process.returncode:
            reason = (errors.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no message"])[-1]
            raise UserError(f"export: the folder does not open with sentence-transformers ({reason}); nothing is kept")
        found: npt.NDArray[np.float32] = np.load(vectors, allow_pickle=False)
        return found


def compared(here: npt.NDArray[np.float32], there: npt.NDArray[np.float32], allowed: float) -> float:
    """Largest difference of a cosine between two sets of vectors of the same sentences.

    Raises:
        UserError: If it is above what is allowed.
    """
    largest = float(np.abs(_cosines(here) - _cosines(there)).max()) if here.shape == there.shape else np.inf
    if not largest <= allowed:
        raise UserError(
            f"export: cosines differ by up to {largest:.1e} from the model's own; allowed: {allowed:.0e}; "
            "nothing is kept"
        )
    return largest


def trial_sentences(model: Embedder) -> list[str]:
    """Texts from none to more tokens than the encoder reads, of words of the built-in sample."""
    words = list(itertools.islice((word for text in sample_corpus() for word in text.split()), 4 * SENTENCES))
    longest = model.encoder.max_length + 8
    counts = np.linspace(0, longest, SENTENCES).round().astype(int)
    return [" ".join((words[3 * i :] + words)[:count]) for i, count in enumerate(counts)]


def _cosines(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    rows = vectors.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T
