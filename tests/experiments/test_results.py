"""Results and their file."""

import json
import shutil
from copy import copy
from dataclasses import replace

import pandas as pd
import pytest

from experiments.small import WordSums, write_corpus, write_nli, write_pairs
from flowbert.experiments import Results, compare
from flowbert.experiments.intervals import RESULT_COLUMNS
from flowbert.experiments.results import records_folder
from flowbert.vectors import EmbeddingCache
from helpers import refused, warned

# Of the three pairs of one task.
pytestmark = pytest.mark.filterwarnings("ignore:whitening. 5 directions in place of 6")

FLOW = "flow:levels=1:depth=1:width=4:steps=2"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "[]",
        '{"rows": []}',
        '{"rows": {}, "record": {}}',
        '{"rows": ' + "[" * 10**5,
    ],
)
def test_foreign_files_are_named(text, output):
    if text is not None:
        output.write_text(text)
    refused(output.name, Results.load, output)


def test_results_without_rows_show_their_verdict():
    results = Results([], {"verdicts": ["saved"]})
    assert repr(results) == "saved"
    assert "<b>saved</b>" in results._repr_html_()


ANSWERS = "question,label,answer\n" + "".join(
    f"who {n}?,{n % 2},a man {n}\nwho {n}?,{1 - n % 2},a dog {n % 3}\n"
    for n in range(25)
)


@pytest.fixture(scope="module")
def everything(pairs, tmp_path_factory):
    """Tasks of all kinds, several corpora and seeds, a map that is undefined; and its file."""
    folder = tmp_path_factory.mktemp("everything")
    few = write_pairs(folder / "few.tsv", count=3)
    answers, nli = folder / "quiz.csv", write_nli(folder / "entailed.jsonl", 240)
    answers.write_text(ANSWERS)
    output = folder / "results.json"
    with warned("5 directions in place of 6"):
        results = compare(
            WordSums(),
            f"raw,whitening,standardization,{FLOW}",
            tasks=[
                *pairs,
                few,
                f"lexical:{pairs[0]}",
                f"answers:{answers}",
                f"probe:{nli}",
            ],
            corpus=f"target,{write_corpus(folder / 'own.txt', 200)}",
            seeds=[0, 1],
            bootstrap=30,
            output=output,
            cache=EmbeddingCache(False),
        )
    return results, output


def test_tasks_of_all_kinds(everything):
    results, _ = everything
    raw = results.frame.query("method == 'raw'")
    for metric in ("accuracy", "auc", "map", "mrr", "edit_distance_words", "spearman"):
        rows_of = raw[raw["metric"] == metric]
        assert len(rows_of)
        assert rows_of[["value", "low", "high"]].notna().all(axis=None)
    # References have rows, intervals, and no part in verdicts or in naming them.
    references = results.frame[results.frame["encoder"] == "none"]
    assert set(references["method"]) == {"gold", "majority"}
    assert not any("gold" in line or "majority" in line for line in results.verdicts)


def views(results):
    """All that is made of results."""
    return {
        "values": results.frame[["value", "low", "high"]].to_numpy(float).tobytes(),
        "differences": results.differences,
        "sentences": results.sentences,
        "items": [
            (task.digest, key, row.tobytes())
            for task, rows in results.items.items()
            for key, row in rows.items()
        ],
        "vectors": {k: each.numpy().tobytes() for k, each in results.vectors.items()},
        "printed": repr(results),
    }


def test_results_of_a_file_are_those_of_the_run(everything, tmp_path):
    results, output = everything
    loaded = Results.load(output)
    pd.testing.assert_frame_equal(loaded.frame, results.frame, check_dtype=False)
    assert views(loaded) == views(results)
    again = copy(results)
    for given in (loaded, again):
        given.add_intervals(50, 3)
    assert views(loaded) == views(again)
    loaded.save(tmp_path / "results.json")
    table = pd.read_csv(tmp_path / "results.csv")
    assert list(table.columns) == list(RESULT_COLUMNS)
    assert len(table) == len(results.frame)


def test_files_of_other_results_are_refused(everything, tmp_path):
    results, output = everything
    own = tmp_path / "results.json"
    own.write_bytes(output.read_bytes())
    # The scores alone can be looked at.
    alone = Results.load(own)
    assert len(alone.frame) == len(results.frame)
    refused("results: received a file without its records", alone.add_intervals, 10)
    shutil.copytree(records_folder(output), records_folder(own))
    assert len(Results.load(own).records) == len(results.records)
    files = sorted(records_folder(own).iterdir())
    content = files[0].read_bytes()
    files[0].write_bytes(content[:-1] + b"\xff")
    refused(f"{files[0].name}: damaged", Results.load, own)
    older = json.loads(own.read_text())
    del older["rows"][0]["template"]
    own.write_text(json.dumps(older))
    refused(f"{own}: written by another version", Results.load, own)


def test_a_task_that_is_not_known_here_leaves_scores(everything, tmp_path):
    results, output = everything
    loaded = Results.load(output)
    other = {**loaded.records[0].task, "kind": "nowhere.tasks.Own"}
    changed = [
        replace(each, task=other) if each.task["digest"] == other["digest"] else each
        for each in loaded.records
    ]
    rows = loaded.frame.to_dict("records")
    Results(rows, loaded.about, changed).save(tmp_path / "results.json")
    again = Results.load(tmp_path / "results.json")
    assert len(again.frame) == len(results.frame)
    assert again.verdicts == results.verdicts
    refused(r"nowhere\.tasks", again.add_intervals, 10)
