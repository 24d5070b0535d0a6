"""The grid as one call of the library: the command line's figures, without files and with an encoder in memory."""

from pathlib import Path

import pytest

from flowbert import SentenceEncoder
from flowbert.cli import main
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.evaluation.results import load_results
from flowbert.runs.compare import compare


def test_the_command_is_this_call(pairs: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    options = ["--methods", "raw,whitening-8", "--tasks", str(pairs), "--bootstrap", "50", "--device", "cpu"]
    main(["evaluate", "--encoder.layers", "last,first_last", *options, "--output", str(output)])
    settings = EncoderSettings(layers=["last", "first_last"])
    found = compare(settings, ["raw", "whitening-8"], tasks=[str(pairs)], bootstrap=50)
    assert found.rows == load_results(output)[0]
    assert len(found.verdicts) == 2


def test_without_an_output_nothing_is_written(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    compare(methods="raw", tasks=str(pairs), bootstrap=0)
    assert sorted(tmp_path.rglob("*")) == before
    assert capsys.readouterr().out == ""


def test_an_encoder_in_memory_is_one_of_a_path(pairs: Path) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="last2", pooling="max")
    mine = compare(encoder, "raw,nulling-1", tasks=str(pairs), bootstrap=0)
    loaded = compare(EncoderSettings(layers="last2", pooling="max"), "raw,nulling-1", tasks=str(pairs), bootstrap=0)
    assert [row.setting for row in mine.rows] == [row.setting for row in loaded.rows]
    assert repr(mine.rows) == repr(loaded.rows)


def test_earlier_rows_stay_in_the_file_and_out_of_the_comparison(pairs: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    first = compare(methods="raw", tasks=str(pairs), bootstrap=0, output=output)
    second = compare(methods="nulling-1", tasks=str(pairs), bootstrap=0, output=output)
    assert {row.method for row in second.rows} == {"nulling-1"}
    assert repr(second.earlier) == repr(first.rows)
    assert repr(load_results(output)[0]) == repr([*second.rows, *first.rows])
