"""Names, globs and lists of files."""

import re
from pathlib import Path

import pytest

from flowbert.data.files import expand_files, listing
from flowbert.data.readers import FORMATS, file_format
from flowbert.errors import UserError


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.txt", ".txt"), ("a.b.CSV", ".csv"), ("a.tsv.gz", ".tsv"), ("a.jsonl.gz", ".jsonl"), ("a.parquet", ".parquet")],
)
def test_format_is_the_extension_without_gz(name: str, expected: str) -> None:
    assert file_format(Path(name)) == expected


@pytest.mark.parametrize(("name", "received"), [("a.doc", ".doc"), ("a", ""), ("a.parquet.gz", ".parquet.gz")])
def test_unknown_extension_names_the_allowed_ones(name: str, received: str) -> None:
    message = f"{name}: unknown extension '{received}'; allowed: {', '.join(FORMATS)}, .txt.gz, .csv.gz"
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        file_format(Path(name))


def test_listing_is_bounded() -> None:
    assert listing([]) == "nothing"
    assert listing(["a", "b", "c"], limit=2) == "a, b and 1 more"


def test_lists_and_globs_keep_order_without_repeats(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.txt", "sub/d.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x\n")
    found = expand_files(f"{tmp_path}/c.txt, {tmp_path}/*.txt,{tmp_path}/**/d.txt")
    assert [path.name for path in found] == ["c.txt", "a.txt", "b.txt", "d.txt"]


def test_an_existing_name_is_no_glob_and_no_list(tmp_path: Path) -> None:
    for name in ("a,b.txt", "x[1].txt"):
        (tmp_path / name).write_text("x\n")
        assert expand_files(tmp_path / name) == [tmp_path / name]


def test_missing_file_suggests_the_nearest_names(tmp_path: Path) -> None:
    (tmp_path / "captions.txt").write_text("x\n")
    message = (
        f"{tmp_path}/caption.txt: no such file; the folder {tmp_path} holds captions.txt (did you mean 'captions.txt'?)"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        expand_files(tmp_path / "caption.txt")


def test_missing_folder_folder_in_place_of_a_file_and_empty_glob(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no/a\.txt: no such file; there is no folder .*no$"):
        expand_files(tmp_path / "no" / "a.txt")
    with pytest.raises(UserError, match="is a folder, a file is needed; it holds nothing"):
        expand_files(tmp_path)
    with pytest.raises(UserError, match=r"\*\.csv: no file matches this glob"):
        expand_files(f"{tmp_path}/*.csv")
    with pytest.raises(UserError, match="no file given"):
        expand_files(" , ")
