"""Distillation: an encoder learns the vectors of a model with its map, without labels.

pip install 'sentence-transformers[train]'
python examples/distill.py --teacher RUN --student DIR --input sentences.txt --output student
"""

import argparse

from datasets import Dataset
from scipy.linalg import orthogonal_procrustes
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MSELoss

from flowbert import Model, load_corpus


def main(words: list[str] | None = None) -> SentenceTransformer:
    """Train the student, save it, and return it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--student", required=True)
    parser.add_argument("--input", default="builtin-sample")
    parser.add_argument("--output", required=True)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args(words)

    sentences = list(load_corpus(options.input).sentences)
    student = SentenceTransformer(options.student).float()
    targets = Model.load(options.teacher).encode(sentences, normalize_embeddings=True)
    # Of all rotations that to the student's vectors: it changes no cosine.
    rotation, _ = orthogonal_procrustes(targets, student.encode(sentences))
    data = Dataset.from_dict({"sentence": sentences, "label": list(targets @ rotation)})
    arguments = SentenceTransformerTrainingArguments(
        options.output,
        num_train_epochs=options.epochs,
        learning_rate=3e-4,
        report_to="none",
    )
    SentenceTransformerTrainer(student, arguments, data, loss=MSELoss(student)).train()
    student.save(options.output)
    return student


if __name__ == "__main__":
    main()
