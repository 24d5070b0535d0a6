"""Which code computed a figure: sources and libraries count, what only asks or shows does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowbert.evaluation import code


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    monkeypatch.undo()
    code.code_digest.cache_clear()


def digest() -> str:
    code.code_digest.cache_clear()
    return code.code_digest()


def test_sources_and_libraries_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {digest()}
    (tmp_path / "calibration").mkdir()
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    for text in ("x = 1\n", "x = 2\n"):
        (tmp_path / "calibration" / "a.py").write_text(text)
        digests.add(digest())
    monkeypatch.setattr(code, "version", lambda library: f"next {library}")
    assert len(digests | {digest()}) == 4


@pytest.mark.parametrize("package", ["cli", "report"])
def test_what_asks_or_shows_does_not_count(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    before = digest()
    (tmp_path / package).mkdir()
    (tmp_path / package / "a.py").write_text("x = 1\n")
    assert digest() == before


def test_every_package_that_is_left_out_exists() -> None:
    assert all((code._ROOT / name).is_dir() for name in code._LEFT_OUT)
