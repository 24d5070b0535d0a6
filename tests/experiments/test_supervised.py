"""What learns from labels: every way to fit it gives the same score, or is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.small import WordSums
from flowbert.errors import UserError
from flowbert.experiments import compare
from flowbert.experiments.run import fit_map
from flowbert.maps import load_map, make_map, save_map
from flowbert.tasks import load_task
from flowbert.tasks.labels import embed_labels, load_labels, training_labels
from flowbert.vectors import EmbeddingCache

METHODS = [
    "learned-removal-2",
    "learned-removal-2+learned-removal-1",
    "learned-removal-2+whitening-3",
    "whitening-4+learned-removal-2",
    "standardization+learned-removal-3+zca:shrinkage=0.1",
]


@pytest.mark.parametrize("method", METHODS)
def test_all_ways_give_one_figure(
    method: str, encoder: WordSums, pairs: list[str], tmp_path: Path
) -> None:
    cache = EmbeddingCache(False)
    results = compare(
        encoder, method, tasks=pairs[0], labels=pairs[1], bootstrap=0, cache=cache
    )
    expected = results.score(method, "one")
    task = load_task(pairs[0])
    labels = training_labels(task, [task], load_labels(pairs[1]))
    labelled = embed_labels(encoder.encode, labels)
    rows = encoder.encode(task.corpus("target").sentences)

    whole: Any = make_map(method)
    whole.fit(rows, pairs=labelled)
    mapped, (left, right, scores) = rows, labelled
    by_step = make_map(method).parts
    for step in by_step:
        step.fit(mapped, pairs=(left, right, scores))
        mapped, left, right = map(step.transform, (mapped, left, right))
    again: Any = make_map(method)
    other = np.flip(rows, axis=1).copy()
    again.fit(other, pairs=(other[:9], other[9:18], np.arange(9)))
    again.fit(rows, pairs=labelled)  # nothing of the first fit is left
    save_map(whole, tmp_path / "map.safetensors")
    vectors = torch.from_numpy(encoder.encode(task.sentences))
    for fitted in (
        whole,
        again,
        fit_map(make_map(method), rows, pairs=labelled)[0],
        load_map(tmp_path / "map.safetensors"),
    ):
        own = task.measure(fitted.transform(vectors)).scores
        assert own["spearman", "wmean"] == expected
    for step in by_step:
        vectors = step.transform(vectors)
    assert task.measure(vectors).scores["spearman", "wmean"] == expected


@pytest.mark.parametrize("method", METHODS)
def test_without_labels_nothing_is_fitted(method: str, encoder: WordSums) -> None:
    rows = encoder.encode(load_task("SAMPLE").sentences[:50])
    with pytest.raises(UserError, match="received no labelled pairs"):
        fit_map(make_map(method), rows)
    with pytest.raises(UserError, match="received no labelled pairs"):
        make_map(method).fit(rows)
