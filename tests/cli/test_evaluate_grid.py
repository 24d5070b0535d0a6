"""evaluate as the whole table, through the real entry point, on a small file of pairs."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowbert import SentenceEncoder, Whitening, evaluate_task, load_task
from flowbert.cli import main
from flowbert.data.sample import sample_pairs
from flowbert.evaluation.results import load_results

PAIRS = 120


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own pairs in columns of own names."""
    path = tmp_path_factory.mktemp("pairs") / "mine.tsv"
    lines = [f"{a}\t{b}\t{score}" for a, b, score in sample_pairs("test")[:PAIRS]]
    path.write_text("\n".join(["left\tright\tgold", *lines]) + "\n", encoding="utf-8")
    return path


def options(pairs: Path, output: Path) -> list[str]:
    return [
        *("--tasks", str(pairs), "--columns", "left,right,gold", "--score_range", "[0, 5]"),
        *("--output", str(output), "--bootstrap", "100"),
    ]


def evaluate(pairs: Path, output: Path, *more: str) -> list[dict[str, Any]]:
    main(["evaluate", *options(pairs, output), *more])
    rows: list[dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))["rows"]
    return rows


def test_own_pairs_with_intervals_verdict_and_files(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.json"
    rows = evaluate(pairs, output, "--methods", "raw,standardization,whitening-16")
    printed = capsys.readouterr().out
    task = load_task(str(pairs), columns=["left", "right", "gold"], score_range=(0, 5))
    encoder = SentenceEncoder.from_pretrained("builtin-sample")
    raw = evaluate_task(task, "test", encoder.encode)
    assert [row["spearman"] for row in rows[:3]] == pytest.approx([raw.all] * 3, abs=1e-3)
    for row in rows:
        assert (row["task"], row["pairs"], row["metric"]) == ("mine", PAIRS, "spearman")
        assert row["low"] < row["value"] < row["high"]
        assert f"[{100 * row['low']:.1f}, {100 * row['high']:.1f}]" in printed
    assert "corpus target, mine: " in printed
    assert "raw" in (tmp_path / "r.md").read_text(encoding="utf-8")
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        assert [float(line["spearman"]) for line in csv.DictReader(file)] == [row["spearman"] for row in rows]
    fingerprint = json.loads(output.read_text(encoding="utf-8"))["fingerprint"]
    assert fingerprint["bootstrap"] == {"resamples": 100, "seed": 0}
    assert fingerprint["verdicts"][0] in printed


def test_everything_times_everything(pairs: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{a}\n" for a, _, _ in sample_pairs("dev")[:200]))
    config = tmp_path / "config.yaml"
    config.write_text(
        f"encoder: {{path: [builtin-sample], layers: [last, first_last, [1, 2, 4]], pooling: [mean, max]}}\n"
        f"methods: [raw, [whitening-8, standardization]]\ncorpus: [target, {corpus}]\n"
    )
    rows = evaluate(pairs, tmp_path / "r.json", "--config", str(config))
    kept = [row for row in rows if row["aggregation"] == "wmean"]
    found = [(row["pooling"], row["layers"], row["method"], row["corpus"]) for row in kept]
    name_of_both = "whitening-8+standardization"
    expected = [("raw", "none"), (name_of_both, "target"), (name_of_both, str(corpus))]
    layers = ("last", "first_last", "1,2,4")
    assert found == [(pooling, name, *rest) for pooling in ("mean", "max") for name in layers for rest in expected]
    task = load_task(str(pairs), columns=["left", "right", "gold"])
    for pooling in ("mean", "max"):
        encoder = SentenceEncoder.from_pretrained("builtin-sample", layers=[1, 2, 4], pooling=pooling)
        whitening = Whitening(8).fit(encoder.encode(task.sentences()))
        own = evaluate_task(task, "test", encoder.encode, whitening.transform)
        (row,) = [
            row
            for row in kept
            if (row["pooling"], row["layers"], row["method"], row["corpus"])
            == (pooling, "1,2,4", name_of_both, "target")
        ]
        assert row["spearman"] == pytest.approx(own.wmean, abs=1e-3)


def test_a_second_run_computes_only_what_is_new(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "r.json"
    first = evaluate(pairs, output, "--methods", "raw,whitening-8")
    fitted: list[str] = []
    fit = Whitening.solve

    def counting(self: Whitening, *args: Any) -> Any:
        fitted.append(repr(self))
        return fit(self, *args)

    monkeypatch.setattr(Whitening, "solve", counting)
    second = evaluate(pairs, output, "--methods", "raw,whitening-8,whitening-9")
    assert second[:6] == first
    assert len(second) == 9
    assert len(fitted) == 1
    assert "note: 2 of 3 figures are in" in capsys.readouterr().err
    third = evaluate(pairs, output, "--methods", "whitening-9")
    assert third == [*second[6:], *second[:6]]
    assert len(fitted) == 1
    assert "6 figures of earlier runs stay in the results file\n" in capsys.readouterr().out
    assert len((tmp_path / "r.csv").read_text(encoding="utf-8").splitlines()) == 10
    markdown = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "whitening-9" in markdown
    assert "whitening-8" not in markdown


def test_lost_scores_are_computed_again(pairs: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    first = evaluate(pairs, output, "--methods", "raw,whitening-8")
    for path in (tmp_path / "r.scores").iterdir():
        path.unlink()
    assert evaluate(pairs, output, "--methods", "raw,whitening-8") == first


def test_an_interrupted_run_keeps_what_it_had(pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "r.json"

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Whitening, "solve", interrupted)
        with pytest.raises(SystemExit) as stopped:
            evaluate(pairs, output, "--methods", "raw,whitening-8")
    assert stopped.value.code == 130
    assert {row.method for row in load_results(output)[0]} == {"raw"}
    assert len(evaluate(pairs, output, "--methods", "raw,whitening-8")) == 6


def test_flows_fitted_here_over_seeds_and_after_whitening(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = "flow:mixing=reverse:epochs=1:batch_size=32"
    rows = evaluate(pairs, tmp_path / "r.json", "--methods", f"raw,{flow},whitening-16+{flow}", "--seeds", "0,1")
    kept = {(row["method"], row["seed"]): row["spearman"] for row in rows if row["aggregation"] == "all"}
    assert set(kept) == {("raw", None), *((name, seed) for name in (flow, f"whitening-16+{flow}") for seed in (0, 1))}
    assert len(set(kept.values())) == 5
    printed = capsys.readouterr().out
    assert f"{flow}, mean of 2" in printed
    assert f"±{100 * np.std([kept[flow, 0], kept[flow, 1]], ddof=1):.2f}" in printed


def test_answers_retrieval_and_lexical_figures(pairs: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.csv"
    lines = [f'"{a}",{int(score > 2.5)},"{b}"' for a, b, score in sample_pairs("test")[:60]]
    lines += [f'"{a}",1,"{a}"' for a, _, _ in sample_pairs("test")[:60]]
    answers.write_text("\n".join(["qtext,label,atext", *lines]) + "\n")
    more = ["--answers", str(answers), "--retrieval", str(pairs), "--lexical", "words", "--positive_above", "3"]
    rows = evaluate(pairs, tmp_path / "r.json", "--methods", "raw,whitening-8", *more)
    metrics = [
        (row["task"], row["metric"]) for row in rows if row["method"] == "whitening-8" and row["metric"] != "spearman"
    ]
    recall = [("mine", name) for name in ("recall@1", "recall@5", "recall@10", "mrr@10")]
    ranking = [("answers", name) for name in ("auc", "map", "mrr")]
    assert metrics == [*recall, *ranking, ("mine", "edit_distance_words")]
    others = [row for row in rows if row["metric"] != "spearman"]
    assert all(row["spearman"] is None for row in others)
    assert all(0 <= row["value"] <= 1 for row in others if not row["metric"].startswith("edit"))
    assert {row["method"] for row in others if row["metric"].startswith("edit")} == {"gold", "raw", "whitening-8"}


def test_supervised_methods_learn_from_a_train_split(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        evaluate(pairs, tmp_path / "r.json", "--methods", "learned-removal-4")
    assert "task mine has no train split, or none beside what is measured; allowed: a task" in capsys.readouterr().err
    labels = tmp_path / "labels.tsv"
    lines = [f"{a}\t{b}\t{score}" for a, b, score in sample_pairs("train")[:150]]
    labels.write_text("\n".join(["left\tright\tgold", *lines]) + "\n")
    rows = evaluate(pairs, tmp_path / "r.json", "--methods", "raw,learned-removal-4", "--labels", str(labels))
    assert [row["supervised"] for row in rows] == [False] * 3 + [True] * 3
    assert "learned-removal-4*" in capsys.readouterr().out


def test_word_vectors_are_an_encoder(pairs: Path, tmp_path: Path) -> None:
    words = {word for a, b, _ in sample_pairs("test")[:PAIRS] for word in f"{a} {b}".lower().replace(".", " .").split()}
    generator = np.random.default_rng(0)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text(
        "".join(f"{w} {' '.join(f'{x:.4f}' for x in generator.normal(size=6))}\n" for w in sorted(words))
    )
    plain = evaluate(
        pairs, tmp_path / "a.json", "--encoder.path", f"builtin-sample,{vectors}", "--methods", "raw,standardization"
    )
    assert [(row["layers"], row["pooling"]) for row in plain[::3]] == [("last", "mean")] * 2 + [("words", "mean")] * 2
    more = ["--encoder.path", str(vectors), "--encoder.pooling", "sif:a=1e-3", "--methods", "raw"]
    sif = evaluate(pairs, tmp_path / "b.json", *more)
    assert sif[0]["pooling"] == "sif of target"
    assert sif[0]["spearman"] != plain[6]["spearman"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--bootstrap", "-1"], "bootstrap: received -1; allowed: 0 or more"),
        (["--lexical", "word"], "lexical: received 'word'; allowed: words, characters"),
        (["--score_range", "1"], "score_range: received 1; allowed: lowest,highest"),
        (["--score_range", "low,5"], "score_range: received 'low,5'; allowed: numbers (float)"),
        (["--seeds", "0,x"], "seeds: received '0,x'; allowed: numbers (int)"),
        (["--score_range", "[0, 1]"], "mine.tsv:"),
        (["--encoder.layers", "[last, frist_last]"], "did you mean 'first_last'"),
        (["--encoder.pooling", "mean,mux"], "pooling: received 'mux'"),
        (["--encoder.layers", "last,1", "--encoder.pooling", "cls_pooler"], "cls_pooler"),
        (["--encoder.max_lenth", "5"], "did you mean --encoder.max_length"),
        (["--split", "dev"], "no split 'dev'"),
        (["--probe", "SICKR"], "senteval: received no folder; allowed for entailment labels of SICKR: a SentEval"),
        (["--probe", "SICKE"], "no entailment labels of a task 'SICKE'; allowed: SICKR, SAMPLE (did you mean 'SICKR'?"),
        (["--probe", "SAMPLE", "--tasks", "SAMPLE", "--split", "dev"], "split: received dev; allowed for a probe"),
        (["--retrieval", "SAMPLE,SAMPLE", "--positive_above", "9"], "no pair has a score above 9"),
    ],
)
def test_mistakes_are_one_line(
    more: list[str], message: str, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", *options(pairs, tmp_path / "r.json"), *more])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()
