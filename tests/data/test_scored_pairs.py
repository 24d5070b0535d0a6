"""STS tasks from a SentEval folder, the hub's layout, the sample and files of pairs."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert.data.scored_pairs import load_sts
from helpers import refused, warned

from .conftest import write


def sizes(data):
    return {split: list(map(len, subsets)) for split, subsets in data.splits.items()}


def test_a_year_leaves_out_pairs_without_a_score(senteval):
    data = load_sts("STS13", senteval)
    assert sizes(data) == {"test": [2, 2, 2]}
    subset = data.split("test")[0]
    assert (subset.name, subset.scores.tolist()) == ("FNWN", [5.0, 0.5])
    assert subset.sentences1 == ("FNWN one.", '"Quoted.')
    assert subset.sentences2 == ("The first .", 'Third."')


def test_stsb_and_sick_have_three_splits(senteval):
    stsb = load_sts("STSB", str(senteval))
    assert sizes(stsb) == {"train": [2], "dev": [3], "test": [4]}
    assert stsb.split("dev")[0].scores.tolist() == [0.5, 1.5, 5.0]
    assert stsb.sentences(["train"]) == ["train 0", "a", "second", "b"]
    assert stsb.sentences() == stsb.sentences(["train", "dev", "test"])
    sick = load_sts("SICKR", senteval)
    assert sizes(sick) == {"train": [3], "dev": [3], "test": [3]}
    assert sick.split("dev")[0].sentences1 == ("A boy", "X trial", "X trial")


@pytest.mark.parametrize(
    ("file", "header"),
    [("LCQMC.valid.data", []), ("LCQMC.dev.tsv", ["text_a\ttext_b\tlabel"])],
)
def test_chinese_layouts(tmp_path, file, header):
    write(tmp_path / "LCQMC" / file, *header, '喜欢"打\t篮球\t1', "", "你\t好\t0")
    data = load_sts("LCQMC", tmp_path)
    assert sizes(data) == {"dev": [2]}
    assert data.sentences() == ['喜欢"打', "你", "篮球", "好"]
    assert data.split("dev")[0].scores.tolist() == [1, 0]


def test_chinese_lines_without_three_fields_are_left_out(tmp_path):
    lines = ["a\tb\t1", "short\t0", "\tb\t1", "a\tb\t", "a\tb\t0\tmore", " c\td\t0 "]
    write(tmp_path / "ATEC" / "ATEC.test.data", *lines)
    with warned("4 of 6 lines do not have three fields"):
        (subset,) = load_sts("ATEC", tmp_path).split("test")
    assert (subset.sentences1, subset.sentences2) == (("a", "c"), ("b", "d"))
    write(tmp_path / "STS-B" / "STS-B.test.data", "train||1||a||b||3")
    with warned("1 of 1 lines"):
        refused("has no row", load_sts, "Chinese-STS-B", tmp_path)


@pytest.mark.usefixtures("hub_cache")
def test_local_copies_of_hub_tasks(tmp_path):
    table = pa.table(
        [["x  a", "b"], ["c", "d"], [2.5, 1.0]], ["sentence1", "sentence2", "score"]
    )
    for data_set in ("stsbenchmark-sts", "sts12-sts"):
        (tmp_path / data_set / "data").mkdir(parents=True)
        for split in ("train", "validation", "test"):
            pq.write_table(
                table, tmp_path / data_set / "data" / f"{split}-0-of-1.parquet"
            )
    stsb = load_sts("STSB", f"hub:{tmp_path}")
    assert sizes(stsb) == {"train": [2], "dev": [2], "test": [2]}
    assert stsb.split("dev")[0].sentences1 == ("x a", "b")
    assert sizes(load_sts("STS12", f"hub:{tmp_path}")) == {"test": [2]}


def test_a_file_of_pairs_is_a_task(tmp_path):
    path = write(
        tmp_path / "my.own.csv", "s,left,right,id", "-3,A  dog.,b,", "1e2,c,d,", ",,,"
    )
    data = load_sts(str(path), columns=["left", "right", "s"])
    assert (data.name, sizes(data)) == ("my.own", {"test": [2]})
    assert data.sentences() == ["A dog.", "c", "b", "d"]
    assert data.split("test")[0].scores.tolist() == [-3, 100]


COUNTS = {
    "STS12": [750, 750, 459, 750, 399],
    "STS13": [189, 750, 561],
    "STS14": [450, 300, 750, 750, 750, 750],
    "STS15": [375, 750, 375, 750, 750],
    "STS16": [254, 249, 230, 244, 209],
    "STSB": [5749, 1500, 1379],
    "SICKR": [4500, 500, 4927],
}


@pytest.mark.real
@pytest.mark.parametrize("name", COUNTS)
def test_real_counts_are_those_of_the_protocol(real, name):
    data = load_sts(name, real / "data" / "senteval")
    assert [size for part in sizes(data).values() for size in part] == COUNTS[name]
    sentences = data.sentences()
    assert len(sentences) == 2 * sum(COUNTS[name])
    assert all(sentence == " ".join(sentence.split()) != "" for sentence in sentences)


@pytest.mark.parametrize(
    ("scores", "given", "expected"),
    [
        ("0.2 0.9", None, (0, 1)),
        ("1 5", None, (0, 5)),
        ("-1 1", None, (-1, 1)),
        ("0 1", [0, 5], (0, 5)),
    ],
)
def test_the_score_range_of_own_files(scores, given, expected, tmp_path):
    lines = [f"a,b,{score}" for score in scores.split()]
    path = write(tmp_path / "own.csv", "sentence1,sentence2,score", *lines)
    data = load_sts(str(path), score_range=given)
    assert data.score_range == expected
    assert data.relative(np.array(expected)).tolist() == [0, 1]


def test_the_score_range_of_named_tasks(senteval):
    write(senteval / "BQ" / "BQ.test.data", "a\tb\t1", "c\td\t0")
    ranges = {
        "SAMPLE": (0, 5),
        "STS13": (0, 5),
        "STSB": (0, 5),
        "SICKR": (1, 5),
        "BQ": (0, 1),
    }
    for name, expected in ranges.items():
        assert load_sts(name, senteval).score_range == expected
