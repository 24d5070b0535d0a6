"""reproduce: the settings of the papers, and published scores beside ours."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from transformers import AutoTokenizer

from encoders.tiny import tiny_network
from experiments.small import write_nli
from flowbert.data.sample import sample_encoder_path, sample_pairs
from flowbert.encoders import EncoderOptions
from flowbert.errors import UserError
from flowbert.experiments import compare
from flowbert.experiments.results import Results
from flowbert.extras.papers.published import (
    PUBLISHED_TASKS,
    compare_with_published,
    explain,
    notes,
    published,
)
from flowbert.extras.papers.reproduce import _place_encoder, reproduce
from flowbert.extras.report import print_reproduction, report
from flowbert.extras.report.reproduction import averages
from flowbert.io import write_json
from flowbert.vectors import EmbeddingCache
from helpers import refused

ROWS = published().set_index("id")
IDS = list(ROWS.index)
BERT = "google-bert/bert-base-uncased"
GLOVE = "li2020-2-glove-mean"
RAW = "li2020-2-bert-base-uncased-first-last"
FLOW = "li2020-2-bert-base-uncased-flow-target"
WHITENING = "su2021-1-bert-base-uncased-whitening-target"
MTEB = "mteb-sentence-transformers-all-minilm-l6-v2-last"
pytestmark = pytest.mark.filterwarnings("ignore:.* directions are few")
SUBSETS = {
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS16": (
        "answer-answer",
        "headlines",
        "plagiarism",
        "postediting",
        "question-question",
    ),
}


COUNT = 45  # with more sentences than the largest whitening has directions


@pytest.fixture(autouse=True, scope="module")
def _small_years():
    with pytest.MonkeyPatch.context() as patch:
        for task, names in SUBSETS.items():
            patch.setitem(PUBLISHED_TASKS, task, COUNT * len(names))
        yield


@pytest.fixture(scope="module")
def senteval(tmp_path_factory):
    """A folder in the layout of SentEval, with small years."""
    root = tmp_path_factory.mktemp("senteval")
    pairs = sample_pairs("test")
    for task, names in SUBSETS.items():
        folder = root / "STS" / f"{task}-en-test"
        folder.mkdir(parents=True)
        for number, name in enumerate(names):
            own = pairs[COUNT * number : COUNT * (number + 1)]
            sentences = [f"{first}\t{second}\n" for first, second, _ in own]
            scores = [f"{score}\n" for *_, score in own]
            (folder / f"STS.input.{name}.txt").write_text("".join(sentences))
            (folder / f"STS.gs.{name}.txt").write_text("".join(scores))
    return str(root)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A random BERT, wide enough for all whitenings."""
    return write_bert(tmp_path_factory.mktemp("encoders") / "wide", num_hidden_layers=1)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    """A random BERT with the name and the sizes of a published encoder."""
    folder = tmp_path_factory.mktemp("encoders") / "all-MiniLM-L6-v2"
    return write_bert(folder, num_hidden_layers=6, vocab_size=30522)


def write_bert(folder, **sizes):
    tokenizer = AutoTokenizer.from_pretrained(sample_encoder_path())
    network = tiny_network(
        "bert", **{"hidden_size": 384, "vocab_size": len(tokenizer)} | sizes
    )
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def run(senteval, encoder, tmp_path_factory):
    """``reproduce`` on small data, with one cache for all tests."""
    folder = tmp_path_factory.mktemp("run")
    nli = write_nli(folder / "nli.jsonl", 300)
    options: dict[str, Any] = {
        "encoder": encoder,
        "senteval": senteval,
        "tasks": "STS16",
        "bootstrap": 20,
        "nli": nli,
        "cache": EmbeddingCache(folder / "cache"),
    }

    def call(rows, **more):
        return reproduce(rows, **(options | more))

    return call


def test_published_scores_are_complete():
    assert ROWS.index.is_unique
    assert ROWS[list(PUBLISHED_TASKS)].notna().sum().sum() == 468
    li2020 = [63.48, 72.14, 68.42, 73.77, 75.37, 70.72, 63.11]
    assert ROWS.loc[FLOW, list(PUBLISHED_TASKS)].tolist() == li2020
    # The paper's table has this average.
    assert np.mean(li2020) == pytest.approx(69.57, abs=0.005)
    assert len(published("other")) == 58


def test_every_row_is_explained_as_a_configuration():
    for row in IDS:
        text = explain(row)
        assert text.startswith(f"# {row}:")
        assert text.count("Taken:") == len(ROWS.loc[row, "ambiguities"].split())
        config = yaml.safe_load(text)
        assert config["methods"] == ROWS.loc[row, "map"]
        assert len(config["tasks"]) == ROWS.loc[row, list(PUBLISHED_TASKS)].count()
    titles = yaml.safe_load(explain("li2020,su2021"))
    assert (
        sum(map(len, titles.values()))
        == ROWS["source"].isin(["li2020", "su2021"]).sum()
    )


# One row of each way: the same map of other numbers, encoders and layers takes the same.
KINDS = ROWS["map"].str.extract("([a-z]+)", expand=False)
WAYS = ROWS.assign(kind=KINDS, few=ROWS["path"].eq(""))
ONE_OF_EACH = WAYS.drop_duplicates(["source", "kind", "corpus", "few"]).index


# LayerNorm leaves 383 of the 384 directions of a published row.
@pytest.mark.filterwarnings("ignore:whitening. 383 directions in place of 384")
@pytest.mark.parametrize(
    "rows", [[*ONE_OF_EACH], pytest.param(IDS, marks=pytest.mark.slow)]
)
def test_every_row_can_be_computed(rows, run):
    result = run(rows).set_index("row")
    assert list(result.index) == rows
    note = result["note"].pop(GLOVE)
    assert "expected a text file of word vectors" in note
    assert result["ours"].drop(GLOVE).between(-100, 100).all()
    known = ROWS.loc[rows]
    assert (result["aggregation"] == known["aggregation"]).all()


def test_a_row_is_a_comparison_with_its_setting(run, encoder, senteval):
    config = yaml.safe_load(explain(WHITENING)) | {"tasks": "STS16"}
    config["encoder"] = EncoderOptions(**config["encoder"] | {"path": encoder})
    results = compare(**config, senteval=senteval)
    (line,) = run(WHITENING, bootstrap=1000).to_dict("records")
    (own,) = results.frame.query("aggregation == 'wmean'").to_dict("records")
    ours = [line["ours"], line["low"], line["high"]]
    assert ours == pytest.approx([100 * own[name] for name in ("value", "low", "high")])


@pytest.fixture(scope="module")
def of_minilm(run, minilm):
    """Rows of another encoder, and of the one that it has the name and the sizes of."""
    return run([RAW, MTEB], tasks="STS13,STS16", encoder=minilm)


def test_another_encoder_makes_scores_context(of_minilm, capsys):
    other, own = (rows for _, rows in of_minilm.groupby("row", sort=False))
    assert other["note"].str.contains("in place of the published encoder").all()
    assert other["difference"].isna().all()
    assert own["note"].str.contains("by its name and its size").all()
    assert own["task"].tolist() == ["STS13", "STS16", "average"]
    difference = own["ours"] - own["published"]
    assert own["difference"].to_list() == pytest.approx(difference.to_list())
    print_reproduction(of_minilm)
    printed = capsys.readouterr().out
    assert printed.startswith("2 of 2 rows of li2020 and mteb measured\n")
    assert printed.count("context") == 1


def test_other_pairs_are_no_target(of_minilm, run, minilm, monkeypatch):
    monkeypatch.setitem(PUBLISHED_TASKS, "STS16", 1186)
    other = run(MTEB, encoder=minilm).iloc[0]
    same = of_minilm.query("row == @MTEB and task == 'STS16'")
    assert same["ours"].item() == other["ours"]
    assert np.isnan(other["difference"])
    assert "STS16: 225 pairs here, 1186 in SentEval" in other["note"]


def test_an_encoder_is_known_by_its_name_and_its_sizes(tmp_path):
    """Every published encoder has sizes; a folder that differs in one is not that encoder."""
    assert compare_with_published(f"{BERT}@main", BERT)[0]
    assert not compare_with_published("bert-base-cased", BERT)[0]
    for path in filter(None, ROWS["path"].unique()):
        sizes = notes()["sizes"][path]
        config = tmp_path / path / "config.json"
        config.parent.mkdir(parents=True)
        write_json(config, sizes)
        folder = str(config.parent)
        assert compare_with_published(folder, path)[0]
        assert not compare_with_published(folder, "a/b")[0]
        for name, size in sizes.items():
            write_json(config, sizes | {name: 4})
            expected = f"({name} 4, published {size})"
            assert compare_with_published(folder, path)[1].endswith(expected)
    (row,) = _place_encoder(RAW, str(tmp_path / BERT)).itertuples()
    assert row.context
    assert "in place of the published encoder (vocab_size 4, published" in row.note


@pytest.fixture
def hub(tmp_path):
    """The years of the fixture ``senteval`` as the hub has them: without their subsets."""
    for task, names in SUBSETS.items():
        folder = tmp_path / f"{task.lower()}-sts"
        folder.mkdir()
        pairs = sample_pairs("test")[: COUNT * len(names)]
        frame = pd.DataFrame(pairs, columns=["sentence1", "sentence2", "score"])
        frame.to_json(folder / "test.jsonl", orient="records", lines=True)
    return f"hub:{tmp_path}"


def test_merged_subsets_have_no_other_aggregation(run, hub):
    """A correlation of all pairs must not stand in a column of weighted means."""
    rows = [RAW, "gao2021-5-bert-base-uncased-embedding-last"]
    known = run(rows, tasks=list(SUBSETS)).set_index(["row", "task"])
    merged = run(rows, tasks=list(SUBSETS), senteval=hub).set_index(["row", "task"])
    assert known["ours"].notna().all()
    assert merged.loc[RAW, "ours"].isna().all()
    assert (
        "STS13, STS16: merged subsets here, so no aggregation wmean"
        in (merged.loc[(RAW, "STS16"), "note"])
    )
    pd.testing.assert_series_equal(
        merged.loc[rows[1], "ours"], known.loc[rows[1], "ours"]
    )


def test_files_hold_what_is_returned(run, output):
    lines = run([RAW, MTEB], output=output)
    assert output.with_suffix(".csv").read_text() == lines.to_csv(index=False)
    results = Results.load(output)
    assert len(results.about["published"]) == len(lines)
    page = report(output).read_text()
    assert page.count(f'<th scope="row">{MTEB}</th>') == 1
    # Finished cells are read again: the encoder is not used.
    again = run([RAW, MTEB], output=output, cache=EmbeddingCache(False))
    pd.testing.assert_frame_equal(again, lines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": "huang2021"}, "rows: huang2021 has no rows: WhiteningBERT"),
        ({"rows": "li2021"}, "rows: received 'li2021'.*li2020"),
        ({"rows": GLOVE}, "encoder: received .*expected a text file of word vectors"),
        ({"rows": "*-simcse-unsup-wiki1m"}, "encoder: .*expected its run folder"),
        ({"rows": FLOW, "encoder": "roberta-base"}, "encoder: received 'roberta-base'"),
        ({"rows": MTEB, "tasks": "SICKR"}, "tasks: .*SICKR"),
    ],
)
def test_mistakes_are_named(options, message, run):
    refused(message, run, **options)


def test_nli_pairs_are_tried_once_after_all_other_rows(
    run, monkeypatch, capsys, output
):
    """Offline each try takes minutes; what can be measured is saved before the first one."""
    tries: list[Any] = []
    told: list[str] = []

    def load(*_, **__):
        tries.append(Results.load(output).about["published"])
        raise UserError("no hub")

    monkeypatch.setattr("flowbert.extras.papers.reproduce.load_corpus", load)
    monkeypatch.setattr("flowbert.extras.papers.reproduce.tell", told.append)
    names = [
        f"su2021-1-bert-{size}-uncased-whitening-nli" for size in ("base", "large")
    ]
    lines = run([*names, RAW], nli="hub", output=output).set_index("row")
    (saved,) = tries
    assert [(line["row"], line["ours"]) for line in saved] == [
        (RAW, lines.loc[RAW, "ours"])
    ]
    assert [re.split("[: ]", line)[0] for line in told] == [RAW, *names]
    assert Results.load(output).about["encoders"]
    print_reproduction(lines.reset_index())
    text = capsys.readouterr().out
    (line,) = [line for line in text.splitlines() if "no hub" in line]
    assert line == f"{', '.join(names)}: cannot be run: no hub"
    assert text.startswith("1 of 3 rows of li2020 and su2021 measured, with wide in ")


def test_rows_of_one_setting_follow_each_other():
    comparison = pd.DataFrame({"row": [*"abc"], "ours": [50.0, 60.0, 50.0]})
    assert averages(comparison)["row"].tolist() == [*"acb"]
