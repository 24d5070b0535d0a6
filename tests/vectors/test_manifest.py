"""Vectors in parts are a table like a file of them; what is damaged or missing is named."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from flowbert.errors import UserError
from flowbert.vectors import VectorTable
from flowbert.vectors.manifest import MANIFEST, join_parts, write_part

ROWS = np.random.default_rng(0).standard_normal((100, 6), dtype=np.float32)
CUTS = (0, 30, 30, 31, 100)  # the second part is empty


def write(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(4):
        rows = ROWS[CUTS[number] : CUTS[number + 1]]
        write_part(folder, number, np.array_split(rows, 3), 6, {"number": number})
    assert join_parts(folder, 4) == (100, 6)
    return folder / MANIFEST


def test_they_are_the_rows_one_after_another(tmp_path: Path) -> None:
    table = VectorTable.open(write(tmp_path))
    assert (len(table), table.dim) == (100, 6)
    blocks = list(table.blocks())
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), ROWS)
    assert [start for start, _ in blocks] == [0, 30, 31]
    rows = np.random.default_rng(1).integers(0, 100, 50)
    np.testing.assert_array_equal(table.take(rows), ROWS[rows])
    np.testing.assert_array_equal(np.load(tmp_path / "part-000003.npy"), ROWS[31:])


def test_the_digest_is_known_without_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = VectorTable.open(write(tmp_path / "a")), VectorTable.open(write(tmp_path / "b"))
    monkeypatch.setattr("flowbert.vectors.manifest.JoinedMatrix.blocks", None)
    assert first.needs_no_pass
    assert first.key() == second.key()
    write_part(tmp_path / "b", 0, [ROWS[:30] + 1], 6, {"number": "another"})
    join_parts(tmp_path / "b", 4)
    assert VectorTable.open(tmp_path / "b" / MANIFEST).key() != first.key()


def test_a_part_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    write(tmp_path)
    before = (tmp_path / "part-000000.npy").stat().st_ino
    write_part(tmp_path, 0, iter(()), 6, {"number": 0})
    assert (tmp_path / "part-000000.npy").stat().st_ino == before
    write_part(tmp_path, 0, [ROWS[:3]], 6, {"number": "another"})
    assert len(np.load(tmp_path / "part-000000.npy")) == 3


def test_an_interruption_leaves_no_word_of_the_vectors_before(tmp_path: Path) -> None:
    manifest = write(tmp_path)

    def interrupted() -> Iterator[npt.NDArray[np.float32]]:
        assert not manifest.exists()
        assert not (tmp_path / "part-000000.json").exists()
        yield ROWS[:30]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_part(tmp_path, 0, interrupted(), 6, {"number": "another"})
    with pytest.raises(UserError, match=r"output: 1 of 4 parts are not in .* \(first: 0\)"):
        join_parts(tmp_path, 4)
    write(tmp_path)
    np.testing.assert_array_equal(VectorTable.open(manifest).take([0]), ROWS[:1])


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    manifest = write(tmp_path)
    with pytest.raises(UserError, match="column: received 'x'"):
        VectorTable.open(manifest, "x")
    with pytest.raises(UserError, match=r"output: 1 of 5 parts are not in .* \(first: 4\)"):
        join_parts(tmp_path, 5)
    part = tmp_path / "part-000003.npy"
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"part-000003\.npy: missing, cut short or damaged"):
        VectorTable.open(manifest).take([99])
    np.save(part, ROWS[:2])
    with pytest.raises(UserError, match=r"holds \(2, 6\) float32; allowed by .*: \(69, 6\)"):
        VectorTable.open(manifest).take([99])
    manifest.write_text(json.dumps({"format": "another"}))
    with pytest.raises(UserError, match="no manifest of vectors"):
        VectorTable.open(manifest)
    manifest.write_text("{")
    with pytest.raises(UserError, match="not JSON, or damaged"):
        VectorTable.open(manifest)


def test_the_manifest_names_files_of_its_own_folder_alone(tmp_path: Path) -> None:
    manifest = write(tmp_path / "parts")
    np.save(tmp_path / "elsewhere.npy", ROWS[:30])
    content = json.loads(manifest.read_text())
    content["parts"][0]["file"] = "../elsewhere.npy"
    manifest.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"parts/elsewhere\.npy: missing"):
        VectorTable.open(manifest).take([0])
