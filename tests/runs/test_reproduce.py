"""reproduce as one call: what cannot be had says so, names choose rows, mistakes name the argument."""

from pathlib import Path

import pytest

from flowbert.data.sample import sample_pairs
from flowbert.errors import UserError
from flowbert.runs.reproduce import reproduce

RAW = "li2020-2-bert-base-uncased-first-last"
SUBSETS = ("answer-answer", "headlines", "plagiarism", "postediting", "question-question")


@pytest.fixture
def senteval(tmp_path: Path) -> str:
    """A folder laid out as SentEval's, with a small STS16."""
    folder = tmp_path / "STS" / "STS16-en-test"
    folder.mkdir(parents=True)
    for number, name in enumerate(SUBSETS):
        some = sample_pairs("test")[20 * number : 20 * number + 20]
        (folder / f"STS.input.{name}.txt").write_text("".join(f"{a}\t{b}\n" for a, b, _ in some))
        (folder / f"STS.gs.{name}.txt").write_text("".join(f"{score}\n" for *_, score in some))
    return str(tmp_path)


def test_nothing_is_kept_without_an_output(senteval: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    (found,) = reproduce([RAW], encoder="builtin-sample", senteval=senteval, tasks=["STS16"], bootstrap=20)
    (comparison,) = found.comparisons
    assert found.context
    assert comparison.low < comparison.ours < comparison.high
    assert comparison.theirs == found.row.figures["STS16"]
    assert sorted(tmp_path.rglob("*")) == before


def test_without_resampling_there_is_no_interval(senteval: str) -> None:
    (found,) = reproduce([RAW], encoder="builtin-sample", senteval=senteval, tasks=["STS16"], bootstrap=0)
    assert found.comparisons[0].inside is None


def test_a_published_encoder_chooses_its_rows(senteval: str) -> None:
    found = reproduce(table="su2021-1", encoder="bert-base-uncased", senteval=senteval, tasks=["STS12"])
    assert {each.row.encoder for each in found} == {"bert-base-uncased"}
    assert all(each.note.startswith("cannot be run: ") for each in found)


def test_mistakes(senteval: str) -> None:
    with pytest.raises(UserError, match=r"tasks: received 'STSX'; allowed: STS12, .*did you mean"):
        reproduce([RAW], senteval=senteval, tasks=["STSX"])
    with pytest.raises(UserError, match=r"senteval: received nothing; allowed: "):
        reproduce([RAW])
    with pytest.raises(UserError, match=r"encoder: none of the rows asked for has roberta-base; allowed: glove, "):
        reproduce(table="li2020", encoder="roberta-base", senteval=senteval)


def test_a_page_lays_ours_beside_theirs(senteval: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    file = tmp_path / "found.json"
    rows = [RAW, "li2020-2-glove-mean"]
    raw, _ = reproduce(rows, encoder="builtin-sample", senteval=senteval, tasks=["STS16"], bootstrap=20, output=file)
    (comparison,) = raw.comparisons
    page = file.with_suffix(".html").read_text(encoding="utf-8")
    for text in ("Published figures x 100, and ours", f"{comparison.ours:.2f}", f"{comparison.theirs:.2f}"):
        assert text in page
    assert "Variance by direction" in page
    assert "li2020-2-glove-mean: cannot be run: " in page


def test_an_interrupted_run_has_a_page_of_what_there_is(
    senteval: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    monkeypatch.setattr("flowbert.reproduction.grid.Intervals.of", stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce([RAW], encoder="builtin-sample", senteval=senteval, tasks=["STS16"], output=tmp_path / "found.json")
    assert "It did not finish" in (tmp_path / "found.html").read_text(encoding="utf-8")
