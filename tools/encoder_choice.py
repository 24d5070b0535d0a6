"""Can encoders be ranked from sentences alone? The table of docs/research/choosing-encoders.md.

``python -m tools.encoder_choice --senteval DIR --encoders bert-mini-mlm,minilm-mlm`` measures each
encoder with several layers and poolings: its mean score on the tasks without a map, and criteria
that need no labels. It prints Kendall's tau of the criteria with the score.
"""

import argparse
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import kendalltau
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import PCA

from flowbert import compare
from flowbert.arrays import Floats
from flowbert.data.corpus import Corpus
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoder
from flowbert.maps import Flow
from flowbert.methods.edits import edit_words
from flowbert.seeding import Stream
from flowbert.tasks import Task, load_tasks
from flowbert.tasks.measures import Array, uniformity, unit_rows
from flowbert.vectors import EmbeddingCache

TASKS = "STS12,STS13,STS14,STS15,STS16,STSB,SICKR"
READOUTS = (
    ("0", "mean"),
    ("2", "mean"),
    ("first_last", "mean"),
    ("last", "mean"),
    ("last", "cls"),
)
COMPONENTS = 32
"""Principal components of a space whose density is estimated."""

HELD_OUT = 0.2
"""Share of the sentences whose likelihood counts."""

DELETED_SHARE = 0.4
"""Share of the words that a view lacks."""

MIN_WORDS = 4
"""Words that a sentence needs to have views."""


def make_views(sentences: Sequence[str], seed: int = 0) -> list[str]:
    """Each sentence without 40% of its words."""
    indices = range(len(sentences))
    rngs = [Stream(seed, "views", batch=index).python() for index in indices]
    return edit_words("word_deletion", DELETED_SHARE, sentences, rngs)


def discriminability(sentences: Array, views: Array) -> float:
    r"""Distance d' of the cosines with the own view and those with the views of others.

    :math:`d' = (\mu_o - \mu) / \sqrt{(\sigma_o^2 + \sigma^2) / 2}`, as in signal detection; the
    variance of the others is that of each sentence, averaged. There is no matrix of all cosines.

    References:
        Signal Detection Theory and Psychophysics (Green and Swets, 1966).

    Args:
        sentences: Vectors of N sentences, ``(N, D)``.
        views: Vectors of their views, ``(N, D)``.
    """
    left, right = unit_rows(sentences), unit_rows(views)
    others = len(left) - 1
    own = (left * right).sum(dim=1)
    mean = (left @ right.sum(dim=0) - own) / others
    square = ((left @ (right.T @ right) * left).sum(dim=1) - own**2) / others
    variance = own.var(correction=0) + (square - mean**2).mean()
    return float((own - mean).mean() / (variance / 2).sqrt())


def measure(
    encoders: Sequence[str],
    tasks: Sequence[Task],
    sentences: Sequence[str],
    components: int = COMPONENTS,
) -> pd.DataFrame:
    """A row per encoder, layers and pooling: score, and criteria without labels; higher is better.

    Args:
        encoders: Their paths.
        tasks: Tasks whose mean score is predicted.
        sentences: The sentences that the criteria see.
        components: Principal components of a space whose density is estimated.
    """
    cache = EmbeddingCache()
    views = make_views(sentences)
    measured = [text for task in tasks for text in task.sentences]
    spaces: dict[tuple[str, str, str], Floats] = {}
    found = []
    for path in encoders:
        opened = open_encoder(EncoderOptions(path, layers="last", pooling="mean"))
        assert isinstance(opened, SentenceEncoder)
        variants = {key: opened.read(layers=key[0], pooling=key[1]) for key in READOUTS}
        cache.fill(list(variants.values()), [*sentences, *views, *measured])
        for (layers, pooling), encoder in variants.items():
            name = Path(path).name, layers, pooling
            rows, own = (cache.rows(encoder, texts)[:] for texts in (sentences, views))
            spaces[name] = PCA(components, whiten=True, random_state=0).fit_transform(
                rows
            )
            x, y = torch.from_numpy(rows), torch.from_numpy(own)
            results = compare(encoder, "raw", tasks=tasks, cache=cache, bootstrap=0)
            # The last row is this reading, which is not raw if the encoder comes with another.
            method = results.frame["method"].iloc[-1]
            scores = [results.score(method, task.name) for task in tasks]
            criteria = {"-uniformity": -uniformity(x), "d'": discriminability(x, y)}
            found.append({"score": 100 * np.mean(scores), **criteria})
    index = pd.MultiIndex.from_tuples(spaces, names=["encoder", "layers", "pooling"])
    frame = pd.DataFrame(found, index=index)
    for density in ("Gaussian", "flow"):
        shared = shared_information(spaces, density)
        frame[f"information, {density}: median"] = shared.median().to_numpy()
        frame[f"information, {density}: mean"] = shared.mean().to_numpy()
    return frame


def shared_information(
    spaces: Mapping[tuple[str, str, str], Floats], density: str
) -> pd.DataFrame:
    """Mutual information of each two spaces in nats, ``(M, M)``; NaN of one with itself.

    log p(u, v) - log p(u) - log p(v), mean over held-out rows. What one tells of the other is
    symmetric: it directs a ranking by its values with all others.

    Args:
        spaces: Vectors ``(N, K)`` of the same sentences by name.
        density: ``Gaussian`` or ``flow``.
    """
    alone = {name: log_likelihood(rows, density) for name, rows in spaces.items()}
    table = pd.DataFrame(np.nan, index=range(len(spaces)), columns=range(len(spaces)))
    numbered = list(enumerate(spaces.items()))
    for (i, (u, rows)), (j, (v, others)) in itertools.combinations(numbered, 2):
        both = log_likelihood(np.hstack([rows, others]), density)
        table.loc[i, j] = table.loc[j, i] = both - alone[u] - alone[v]
    return table


def log_likelihood(rows: Floats, density: str) -> float:
    """Mean log-likelihood of held-out rows under a density of the others, in nats."""
    rows = rows[Stream(0, "held out").rng().permutation(len(rows))]
    count = round(len(rows) * (1 - HELD_OUT))
    if density == "Gaussian":
        return float(LedoitWolf().fit(rows[:count]).score(rows[count:]))
    return Flow(init="whitening").fit(rows[:count]).score(rows[count:])


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoders", required=True, help="paths, comma-separated")
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--senteval")
    parser.add_argument("--sentences", type=int, default=5000, help="of the tasks")
    parser.add_argument("--output", type=Path, default=Path("encoder-choice.csv"))
    options = parser.parse_args(arguments)
    names = as_list(options.tasks, "tasks")
    tasks = load_tasks(names, options.senteval)
    texts = [text for task in tasks for text in task.corpus("target").sentences]
    long = [text for text in dict.fromkeys(texts) if len(text.split()) >= MIN_WORDS]
    drawn = Corpus("", tuple(long)).sample(options.sentences, seed=0)
    encoders = as_list(options.encoders, "encoders")
    frame = measure(encoders, tasks, drawn.sentences)
    frame.to_csv(options.output)
    print(frame.round(2).to_string())
    for name in frame.columns.drop("score"):
        tau = kendalltau(frame["score"], frame[name]).statistic
        print(f"{name}: tau {tau:.2f}")


if __name__ == "__main__":
    main()
