"""reproduce through the real entry point: list, explain, and a row with another encoder."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from flowbert.cli import main
from flowbert.data.sample import sample_pairs
from flowbert.reproduction import published_rows

RAW = "li2020-2-bert-base-uncased-first-last"
FLOW = "li2020-2-bert-base-uncased-flow-target"
WHITENING = "su2021-1-bert-base-uncased-whitening-256-target"
SIMCSE = "gao2021-5-bert-base-uncased-simcse-unsup-wiki1m"


@pytest.fixture(scope="module")
def senteval(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder laid out as SentEval's, with a small STS16."""
    root = tmp_path_factory.mktemp("senteval")
    folder = root / "STS" / "STS16-en-test"
    folder.mkdir(parents=True)
    names = ("answer-answer", "headlines", "plagiarism", "postediting", "question-question")
    for number, name in enumerate(names):
        part = sample_pairs("test")[40 * number : 40 * number + 40]
        (folder / f"STS.input.{name}.txt").write_text("".join(f"{a}\t{b}\n" for a, b, _ in part))
        (folder / f"STS.gs.{name}.txt").write_text("".join(f"{score}\n" for *_, score in part))
    return root


def reproduce(senteval: Path, output: Path, *more: str) -> None:
    data = ["--senteval", str(senteval), "--tasks", "STS16"]
    main(["reproduce", *data, "--output", str(output), "--bootstrap", "50", *more])


def test_list_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce", "--list"])
    printed = capsys.readouterr().out
    assert all(row.id in printed for row in published_rows())
    main(["reproduce", "--explain", FLOW])
    printed = capsys.readouterr().out
    assert "readings:" in printed
    assert "taken: reverse" in printed


def test_another_encoder_takes_the_place_of_the_published_one(
    senteval: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.json"
    ids = ",".join((RAW, FLOW, WHITENING))
    reproduce(senteval, output, "--rows", ids, "--encoder.path", "builtin-sample", "--seeds", "0,1")
    printed = capsys.readouterr().out
    assert "published (context only)" in printed
    assert "difference" not in printed
    assert "builtin-sample in place of the published encoder" in printed
    assert "n_components: received 256; allowed: 1 to 128" in printed
    rows = json.loads(output.read_text(encoding="utf-8"))["rows"]
    raw, *flows = [row for row in rows if row["aggregation"] == "wmean"]
    assert (raw["layers"], raw["max_length"], raw["split"]) == ("first_last", 64, "test")
    assert [flow["seed"] for flow in flows] == [0, 1]
    assert all("mixing=reverse" in flow["method"] for flow in flows)
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert [record["row"] for record in records] == [RAW, FLOW]
    assert float(records[0]["ours"]) == pytest.approx(100 * raw["spearman"])
    assert float(records[1]["ours"]) == pytest.approx(100 * np.mean([flow["spearman"] for flow in flows]))
    assert float(records[1]["low"]) < float(records[1]["ours"]) < float(records[1]["high"])


def test_what_cannot_be_had_says_so_and_the_rest_runs(
    senteval: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        reproduce(senteval, tmp_path / "r.json", "--rows", f"{RAW},{SIMCSE},li2020-2-glove-mean")
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert "encoder 'google-bert/bert-base-uncased': no such folder here" in printed.out
    assert "the encoder itself is trained" in printed.out
    assert "the row needs word vectors" in printed.out
    assert "none of the 3 rows could be run" in printed.err


def test_word_vectors_reproduce_the_glove_row(senteval: Path, tmp_path: Path) -> None:
    words = sorted({word for a, b, _ in sample_pairs("test")[:200] for word in f"{a} {b}".lower().split()})
    vectors = tmp_path / "vectors.txt"
    generator = np.random.default_rng(0)
    vectors.write_text("".join(f"{w} {' '.join(f'{x:.4f}' for x in generator.normal(size=6))}\n" for w in words))
    output = tmp_path / "r.json"
    reproduce(senteval, output, "--rows", f"li2020-2-glove-mean,{RAW}", "--encoder.path", str(vectors))
    rows = json.loads(output.read_text(encoding="utf-8"))["rows"]
    assert {row["layers"] for row in rows} == {"words"}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--table", "li2021"], "--table: received 'li2021'; allowed: li2020"),
        (["--rows", "li2020-2-bert"], "no published row 'li2020-2-bert'"),
        (["--explain", "nothing"], "no published row 'nothing'"),
        (["--tasks", "STS11"], "--tasks: received 'STS11'"),
        (
            ["--table", "li2020", "--encoder.path", "roberta-base"],
            "--encoder.path: none of the rows asked for has roberta",
        ),
    ],
)
def test_mistakes(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "--senteval", ".", *argv])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_data_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "--table", "li2020"])
    assert "--senteval: received nothing" in capsys.readouterr().err
