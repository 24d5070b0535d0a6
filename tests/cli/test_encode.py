from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from flowbert import SentenceEncoder
from flowbert.cli import main

SENTENCES = ["a dog runs", "the cat sleeps", "a dog runs"]


@pytest.fixture
def expected() -> np.ndarray:
    return SentenceEncoder.from_pretrained("builtin-sample").encode(SENTENCES)


@pytest.mark.filterwarnings("default::flowbert.errors.FlowbertWarning")
def test_file_to_npy(tmp_path: Path, expected: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "s.txt"
    source.write_text("\n".join(SENTENCES) + "\n\n")
    main(["encode", "--input", str(source), "--output", str(tmp_path / "new" / "v.npy")])
    np.testing.assert_allclose(np.load(tmp_path / "new" / "v.npy"), expected, atol=1e-5)
    shown = capsys.readouterr()
    assert "3 vectors of size 128" in shown.out
    assert "1 blank lines dropped, so row i of the output is not line i" in shown.err


def test_sentences_to_parquet_keep_their_text(tmp_path: Path, expected: np.ndarray) -> None:
    output = tmp_path / "v.parquet"
    main(["encode", "--sentences", '["a dog runs", "the cat sleeps", "a dog runs"]', "--output", str(output)])
    table = pyarrow.parquet.read_table(output)
    assert table.column("sentence").to_pylist() == SENTENCES
    np.testing.assert_allclose(np.stack(table.column("embedding").to_pylist()), expected, atol=1e-5)


@pytest.mark.parametrize(("option", "value"), [("vectors", "v.npy"), ("sentences", '["a dog runs"]')])
def test_a_folder_takes_an_input_alone(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["encode", f"--{option}", value, "--input", "s.txt", "--output", f"{tmp_path}/parts/"])
    assert f"{option}: received beside a folder as output" in capsys.readouterr().err
    assert not (tmp_path / "parts").exists()


def test_column_of_a_table(tmp_path: Path, expected: np.ndarray) -> None:
    source = tmp_path / "s.csv"
    source.write_text("id,text\n" + "\n".join(f'{i},"{s}"' for i, s in enumerate(SENTENCES)) + "\n")
    main(["encode", "--input", str(source), "--column", "text", "--output", str(tmp_path / "v.npy")])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
