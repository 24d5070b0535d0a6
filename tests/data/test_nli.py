"""NLI pairs from every layout, and their triples."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbert.data.nli import LABELS, NLIData, load_nli
from flowbert.errors import UserError

ROWS = [("A dog runs.", "An animal moves.", "entailment"), ("A dog runs.", "It barks.", "neutral")]


def _jsonl(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _rows(data: NLIData) -> list[tuple[str, str, str]]:
    return list(zip(data.premises, data.hypotheses, data.labels, strict=True))


@pytest.mark.parametrize("labels", [("entailment", "neutral"), (0, 1), ("0", "1")])
@pytest.mark.parametrize("columns", [("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label")])
def test_layouts_and_labels(tmp_path: Path, labels: tuple[object, ...], columns: tuple[str, ...]) -> None:
    records = [dict(zip(columns, (p, h, label), strict=True)) for (p, h, _), label in zip(ROWS, labels, strict=True)]
    assert _rows(load_nli(str(_jsonl(tmp_path / "a.jsonl", *records)))) == ROWS


def test_csv_tsv_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("premise,hypothesis,label\n" + "".join(f'"{p}",{h},{y}\n' for p, h, y in ROWS))
    (tmp_path / "b.tsv").write_text(
        "id\tpremise\thypothesis\tlabel\n" + "".join(f"1\t{p}\t{h}\t{y}\n" for p, h, y in ROWS)
    )
    names = ("premise", "hypothesis", "label")
    columns = dict(zip(names, (list(column) for column in zip(*ROWS, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    assert _rows(load_nli(f"{tmp_path}/a.csv,{tmp_path}/b.tsv,{tmp_path}/c.parquet")) == ROWS * 3


def test_pairs_without_gold_label_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [{"premise": "p", "hypothesis": f"h{i}", "label": label} for i, label in enumerate((-1, "-", 2, "-1"))]
    data = load_nli(str(_jsonl(tmp_path / "a.jsonl", *rows)))
    assert _rows(data) == [("p", "h2", "contradiction")]
    assert data.unlabelled == 3
    with pytest.raises(UserError, match=r"b\.jsonl: no labelled pair, only 1 without a gold label"):
        load_nli(str(_jsonl(tmp_path / "b.jsonl", rows[0])))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"label": "entails"},
            "label is 'entails'; allowed: entailment, neutral, contradiction (did you mean 'entailment'?), 0",
        ),
        (
            {"label": 3},
            "label is 3; allowed: entailment, neutral, contradiction, 0, 1, 2 (in that order), -1 or '-' for none",
        ),
        ({"hypothesis": "  "}, "column 'hypothesis' is empty; allowed: a sentence"),
        ({"premise": None}, "column 'premise' holds null; allowed: text"),
    ],
)
def test_bad_rows_name_file_and_line(tmp_path: Path, row: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"premise": "p", "hypothesis": "h", "label": "neutral"}
    path = _jsonl(tmp_path / "a.jsonl", good, {**good, **row})
    with pytest.raises(UserError, match=f"^{re.escape(f'{path}:2: {message}')}"):
        load_nli(str(path))


def test_unknown_columns_are_named(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "a.jsonl", {"premise": "p", "text": "t"})
    message = f"{path}:1: the columns are premise, text; allowed: sent0, sent1, hard_neg or premise, "
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        load_nli(str(path))


def test_triples_pair_the_ith_entailment_with_the_ith_contradiction() -> None:
    rows = [
        ("b", "b+1", "entailment"),
        ("a", "a+1", "entailment"),
        ("a", "a-1", "contradiction"),
        ("a", "a0", "neutral"),
        ("a", "a+2", "entailment"),
        ("a", "a-2", "contradiction"),
        ("a", "a+3", "entailment"),
    ]
    premises, hypotheses, labels = zip(*rows, strict=True)
    assert NLIData(premises, hypotheses, labels).triples() == [("a", "a+1", "a-1"), ("a", "a+2", "a-2")]


def test_simcse_triples_come_back_as_they_were(tmp_path: Path) -> None:
    triples = [("a", "a+1", "a-1"), ("b", "b+1", "b-1"), ("a", "a+2", "a-2")]
    path = tmp_path / "nli.csv"
    path.write_text("sent0,sent1,hard_neg\n" + "".join(",".join(triple) + "\n" for triple in triples))
    data = load_nli(str(path))
    assert sorted(data.triples()) == sorted(triples)
    assert data.labels.count("entailment") == data.labels.count("contradiction") == 3


def test_builtin_sample() -> None:
    data = load_nli("builtin-sample")
    assert {label: data.labels.count(label) for label in LABELS} == dict.fromkeys(LABELS, 4000)


def test_hub_is_snli_and_mnli(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    loaded: list[str] = []

    def fake(name: str, *_: object, split: str, **__: object) -> datasets.Dataset:
        loaded.append(f"{name} {split}")
        return datasets.Dataset.from_dict(
            {"premise": ["p", "q"], "hypothesis": ["h", ""], "label": [2, -1], "idx": [0, 1]}
        )

    monkeypatch.setattr(datasets, "load_dataset", fake)
    data = load_nli("hub")
    assert loaded == ["stanfordnlp/snli train", "nyu-mll/multi_nli train"]
    assert _rows(data) == [("p", "h", "contradiction")] * 2
    assert data.unlabelled == 2
    load_nli("hub:owner/own")
    assert loaded[-1] == "owner/own train"
