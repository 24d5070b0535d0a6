"""STS tasks read from a folder laid out as SentEval's, from local copies of hub data sets, and from the sample."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert.data.sts import STSTask, load_task
from flowbert.errors import UserError

STS13 = ("FNWN", "headlines", "OnWN")
GS, INPUT = (f"STS/STS13-en-test/STS.{kind}.OnWN.txt" for kind in ("gs", "input"))


def _lines(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def senteval(tmp_path: Path) -> Path:
    """A made-up SentEval folder with STS13, STSB and SICKR."""
    year = tmp_path / "STS" / "STS13-en-test"
    for name in STS13:
        _lines(
            year / f"STS.input.{name}.txt", f"{name} one.\tThe  first .", f"{name} two.\tNo score.", '"Quoted.\tThird."'
        )
        _lines(year / f"STS.gs.{name}.txt", "5.000", "", "0.5")
    _lines(year / "STS.input.SMT.txt", "left\tout")
    _lines(year / "STS.gs.SMT.txt", "1")
    for count, split in enumerate(("train", "dev", "test"), start=1):
        rows = [f"main\tfile\t2012\t{i}\t{i}.500\t{split} {i}\tsecond" for i in range(count)]
        _lines(tmp_path / "STS" / "STSBenchmark" / f"sts-{split}.csv", *rows, "main\tf\t2\t3\t5\ta\tb\tsource\tlicence")
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    for split in ("train", "trial", "test_annotated"):
        _lines(tmp_path / "SICK" / f"SICK_{split}.txt", header, "1\tA boy\tA girl\t3.4\tNEUTRAL", "2\tX\tY\t1\tNEUTRAL")
    return tmp_path


def _sizes(task: STSTask) -> dict[str, list[tuple[str, int]]]:
    return {split: [(subset.name, len(subset)) for subset in subsets] for split, subsets in task.splits.items()}


def test_year_has_its_subsets_and_leaves_out_pairs_without_score(senteval: Path) -> None:
    task = load_task("STS13", senteval)
    assert _sizes(task) == {"test": [(name, 2) for name in STS13]}
    subset = task.split("test")[0]
    assert subset.sentences1 == ("FNWN one.", '"Quoted.')
    assert subset.sentences2 == ("The first .", 'Third."')
    np.testing.assert_array_equal(subset.scores, [5.0, 0.5])
    assert subset.scores.dtype == np.float64


def test_stsb_and_sick_have_three_splits(senteval: Path) -> None:
    stsb = load_task("STSB", str(senteval))
    assert _sizes(stsb) == {"train": [("STSB", 2)], "dev": [("STSB", 3)], "test": [("STSB", 4)]}
    np.testing.assert_array_equal(stsb.split("dev")[0].scores, [0.5, 1.5, 5.0])
    assert stsb.split("dev")[0].sentences2[-1] == "b"
    sick = load_task("SICKR", senteval)
    assert _sizes(sick) == {split: [("SICKR", 2)] for split in ("train", "dev", "test")}
    assert sick.split("test")[0].sentences1 == ("A boy", "X")


def test_sentences_are_every_occurrence_in_order(senteval: Path) -> None:
    task = load_task("STSB", senteval)
    assert task.sentences(["train"]) == ["train 0", "a", "second", "b"]
    assert task.sentences() == task.sentences(["train", "dev", "test"])
    assert len(task.sentences()) == 2 * (2 + 3 + 4)
    with pytest.raises(UserError, match="task STSB has no split 'trial'; allowed: train, dev, test"):
        task.sentences(["trial"])


def test_unknown_task_suggests_the_nearest() -> None:
    with pytest.raises(
        UserError, match=r"^unknown task 'sts-b'; allowed: STS12, .*SICKR, SAMPLE \(did you mean 'STSB'"
    ):
        load_task("sts-b", "hub")
    with pytest.raises(UserError, match="task STS12 needs data; allowed: a SentEval folder, 'hub', or the task SAMPLE"):
        load_task("STS12")


def test_missing_folder_task_and_subset_say_what_is_there(senteval: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: no such SentEval folder; .* holds SICK, STS$"):
        load_task("STS12", senteval / "nowhere")
    folder = senteval / "STS"
    message = f"task STS12: no file {folder}/STS12-en-test/STS.input.MSRpar.txt; the folder {folder} holds STS13"
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        load_task("STS12", senteval)
    gone = folder / "STS13-en-test" / "STS.gs.headlines.txt"
    gone.unlink()
    message = (
        f"task STS13: no file {gone}; the folder {gone.parent} holds STS.gs.FNWN.txt, STS.gs.OnWN.txt, STS.gs.SMT.txt"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        load_task("STS13", senteval)


def test_line_counts_of_input_and_scores_must_agree(senteval: Path) -> None:
    folder = senteval / "STS" / "STS13-en-test"
    _lines(folder / "STS.gs.FNWN.txt", "1", "2")
    message = f"{folder}/STS.input.FNWN.txt has 3 lines but {folder}/STS.gs.FNWN.txt has 2; allowed: equal counts"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        load_task("STS13", senteval)


@pytest.mark.parametrize(
    ("task", "file", "line", "text", "message"),
    [
        ("STS13", GS, 1, "good", "score is 'good' (str); allowed: a number from 0 to 5"),
        ("STS13", GS, 3, "nan", "score is 'nan' (str); allowed: a number from 0 to 5"),
        ("STS13", GS, 1, "5.1", "score is '5.1' (str); allowed: a number from 0 to 5"),
        ("STS13", INPUT, 1, "one", "1 fields; allowed: 2 with tabs between them (sentence1, sentence2)"),
        ("STS13", INPUT, 3, "a\tb\tc", "3 fields; allowed: 2 with tabs between them (sentence1, sentence2)"),
        ("STS13", INPUT, 1, "a\t ", "column 'sentence2' is empty; allowed: a"),
        ("STSB", "STS/STSBenchmark/sts-dev.csv", 2, "a\tb\tc\td\t1\tx", "6 fields; allowed: 7 or more"),
        (
            "STSB",
            "STS/STSBenchmark/sts-dev.csv",
            2,
            "a\tb\tc\td\t-1\tx\ty",
            "score is '-1' (str); allowed: a number from 0 to",
        ),
        ("SICKR", "SICK/SICK_trial.txt", 2, "1\tA\tB\t0.5\tN", "relatedness_score is '0.5' (str); allowed: a number"),
        ("SICKR", "SICK/SICK_trial.txt", 3, "1\tA\tB\t2", "4 fields; allowed: 5, as in the header"),
        (
            "SICKR",
            "SICK/SICK_trial.txt",
            1,
            "pair_ID\tsentence_A",
            "no column 'sentence_B'; allowed: pair_ID, sentence_A",
        ),
    ],
)
def test_bad_lines_name_file_and_line(senteval: Path, task: str, file: str, line: int, text: str, message: str) -> None:
    path = senteval / file
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    _lines(path, *lines)
    with pytest.raises(UserError, match=f"^{re.escape(f'{path}:{line}: {message}')}"):
        load_task(task, senteval)


def test_a_subset_without_any_score_is_an_error(senteval: Path) -> None:
    _lines(senteval / "STS" / "STS13-en-test" / "STS.gs.FNWN.txt", "", "", "")
    with pytest.raises(UserError, match=r"STS\.gs\.FNWN\.txt: no pair has a score; allowed: at least one$"):
        load_task("STS13", senteval)


def _hub_copy(folder: Path, name: str, splits: tuple[str, ...], score: float = 2.5) -> None:
    (folder / name / "data").mkdir(parents=True)
    for split in splits:
        columns = {"sentence1": [f"{split}  a", "b"], "sentence2": ["c", "d"], "score": [score, 1.0]}
        pq.write_table(pa.table(columns), folder / name / "data" / f"{split}-00000-of-00001.parquet")


@pytest.fixture
def _hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


@pytest.mark.usefixtures("_hub_cache")
def test_local_copies_of_hub_tasks(tmp_path: Path) -> None:
    _hub_copy(tmp_path, "stsbenchmark-sts", ("train", "validation", "test"))
    _hub_copy(tmp_path, "sts12-sts", ("train", "test"))
    stsb = load_task("STSB", f"hub:{tmp_path}")
    assert _sizes(stsb) == {split: [("STSB", 2)] for split in ("train", "dev", "test")}
    assert stsb.split("dev")[0].sentences1 == ("validation a", "b")
    np.testing.assert_array_equal(stsb.split("test")[0].scores, [2.5, 1.0])
    assert _sizes(load_task("STS12", f"hub:{tmp_path}")) == {"test": [("STS12", 2)]}


@pytest.mark.usefixtures("_hub_cache")
def test_scores_of_hub_tasks_are_checked(tmp_path: Path) -> None:
    _hub_copy(tmp_path, "sickr-sts", ("test",), score=7.0)
    with pytest.raises(UserError, match=r"sickr-sts:1: score is 7\.0 \(float\); allowed: a number from 1 to 5"):
        load_task("SICKR", f"hub:{tmp_path}")


def test_sample_task() -> None:
    task = load_task("SAMPLE")
    assert _sizes(task) == {"train": [("SAMPLE", 3000)], "dev": [("SAMPLE", 750)], "test": [("SAMPLE", 1000)]}


def test_hub_out_of_reach_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\n(offline)")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    message = (
        "hub data set 'mteb/sts12-sts' (config None, split test, file None) cannot be loaded: "
        "Couldn't reach the Hub (offline); offline, give a local folder in the same layout"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        load_task("STS12", "hub")


def test_a_file_of_own_pairs_is_a_task(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("a,b,s\nA dog.,A cat.,0.5\nHi.,Hello.,0.9\n")
    task = load_task(str(path), columns=["a", "b", "s"], score_range=(0, 1))
    assert (task.name, task.split("test")[0].scores.tolist()) == ("mine", [0.5, 0.9])
    with pytest.raises(UserError, match=r"mine\.csv:3: .*0.9"):
        load_task(str(path), columns=["a", "b", "s"], score_range=(0, 0.8))
    with pytest.raises(UserError, match="no column 'sentence1'"):
        load_task(str(path))


def test_a_chinese_task_is_loaded_where_its_folder_is(tmp_path: Path) -> None:
    (tmp_path / "BQ").mkdir()
    (tmp_path / "BQ" / "BQ.test.data").write_text("甲\t乙\t1\n丙\t丁\t0\n")
    assert load_task("BQ", tmp_path).split("test")[0].scores.tolist() == [1, 0]
    with pytest.raises(UserError, match="did you mean 'STSB'"):
        load_task("STS-B", tmp_path)
