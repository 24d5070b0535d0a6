"""Corpora: where their sentences come from, what is counted, and their digest."""

import json
import re
from pathlib import Path

import pytest

from flowbert.data.corpus import Corpus, load_corpus, sentences_digest
from flowbert.data.sts import load_task
from flowbert.errors import UserError


@pytest.fixture
def _hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


def test_blank_ones_are_dropped_and_duplicates_counted_but_kept() -> None:
    corpus = Corpus.of("x", ["a", " ", "b", "a", "", "a"], blank=1)
    assert corpus.sentences == ("a", "b", "a", "a")
    assert (len(corpus), corpus.blank, corpus.duplicates) == (4, 3, 2)


def test_digest_depends_on_order_and_on_where_sentences_end() -> None:
    lists = (["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""], ["a", "b", "b"])
    digests = {sentences_digest(sentences) for sentences in lists}
    assert len(digests) == len(lists)
    assert Corpus.of("x", ["a", "b"]).digest == sentences_digest(["a", "b"])
    assert sentences_digest(["a", "b"]) == "6a93c5780b9861cdd8d2761a748d9591"


def test_sample_is_drawn_by_the_seed_in_order() -> None:
    corpus = Corpus.of("x", [f"{i:03}" for i in range(100)])
    drawn = corpus.sample(10, seed=1)
    assert len(drawn) == len(set(drawn.sentences)) == 10
    assert list(drawn.sentences) == sorted(drawn.sentences)
    assert drawn == corpus.sample(10, seed=1)
    assert drawn.sentences != corpus.sample(10, seed=2).sentences
    assert drawn.name == "x"
    assert corpus.sample(100, seed=1) is corpus


def test_target_takes_all_splits_and_train_only_one() -> None:
    task = load_task("SAMPLE")
    target = load_corpus("target", task="SAMPLE")
    assert list(target.sentences) == task.sentences(["train", "dev", "test"])
    assert target.duplicates == 9500 - len(set(target.sentences)) > 0
    train = load_corpus("train_only", task="SAMPLE")
    assert list(train.sentences) == task.sentences(["train"])
    assert (target.name, train.name) == ("target", "train_only")


def test_train_only_names_the_tasks_that_can(tmp_path: Path) -> None:
    folder = tmp_path / "STS" / "STS13-en-test"
    folder.mkdir(parents=True)
    for name in ("FNWN", "headlines", "OnWN"):
        (folder / f"STS.input.{name}.txt").write_text("a\tb\nc\td\n")
        (folder / f"STS.gs.{name}.txt").write_text("1\n2\n")
    message = "corpus: received 'train_only'; task STS13 has no train split, only test; allowed: STSB, SICKR, SAMPLE"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        load_corpus("train_only", task="STS13", senteval=tmp_path)
    assert load_corpus("target", task="STS13", senteval=tmp_path).sentences == ("a", "c", "b", "d") * 3
    with pytest.raises(UserError, match="corpus: received 'target' without a task; allowed: with one, or files"):
        load_corpus("target")


def test_nli_and_the_sample_corpus(tmp_path: Path) -> None:
    assert len(load_corpus("nli", nli="builtin-sample")) == 24_000
    assert len(load_corpus("builtin-sample")) == 20_000
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"premise": "p", "hypothesis": "h", "label": "neutral"}) + "\n")
    assert load_corpus("nli", nli=str(path)).sentences == ("p", "h")


def test_files_globs_and_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    (tmp_path / "b.csv").write_text("id,text\n1,three\n2,one\n")
    corpus = load_corpus(f"{tmp_path}/a.txt,{tmp_path}/*.csv", column="text")
    assert corpus.sentences == ("one", "two", "three", "one")
    assert (corpus.blank, corpus.duplicates) == (1, 1)
    with pytest.raises(UserError, match=r"c\.txt: no such file; the folder .* holds a\.txt, b\.csv"):
        load_corpus(f"{tmp_path}/c.txt")


def test_a_typo_in_the_name_suggests_the_nearest() -> None:
    allowed = "target, train_only, nli, builtin-sample (did you mean 'target'?), hub:NAME, or files"
    message = f"corpus: received 'tagret'; allowed: {allowed}"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        load_corpus("tagret")


@pytest.mark.usefixtures("_hub_cache")
def test_local_folder_in_place_of_a_hub_name(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "train.csv").write_text("id,text\n1,one\n2, two \n")
    assert load_corpus(f"hub:{folder}", column="text").sentences == ("one", "two")
    with pytest.raises(UserError, match=r"no column 'txt'; allowed: id, text \(did you mean 'text'\?\)"):
        load_corpus(f"hub:{folder}", column="txt")
    with pytest.raises(UserError, match=r"choose a column; allowed: id, text"):
        load_corpus(f"hub:{folder}")
    with pytest.raises(UserError, match=r"split dev, file None\) cannot be loaded: Unknown split"):
        load_corpus(f"hub:{folder}?split=dev", column="text")


@pytest.mark.usefixtures("_hub_cache")
def test_text_file_of_a_hub_repository(tmp_path: Path) -> None:
    folder = tmp_path / "datasets-for-simcse"
    folder.mkdir()
    (folder / "nli_for_simcse.csv").write_text("sent0,sent1,hard_neg\na,b,c\n")
    (folder / "wiki1m_for_simcse.txt").write_text("one\n\ntwo\n")
    corpus = load_corpus(f"hub:{folder}?data_files=wiki1m_for_simcse.txt")
    assert corpus.sentences == ("one", "two")
    assert corpus.blank == 1
