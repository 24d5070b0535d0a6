"""Check that a wheel is complete: ``python tools/check_wheel.py flowbert-*.whl``."""

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def missing_files(wheel: Path, root: Path = ROOT) -> list[str]:
    """Files of the package, ``flowbert/...``, and of ``configs/`` that a wheel lacks."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = [
        path.relative_to(root).as_posix()
        for path in (root / "flowbert").rglob("*")
        if path.is_file()
    ]
    configs = [f"flowbert/configs/{path.name}" for path in (root / "configs").iterdir()]
    return sorted(
        name for name in {*source, *configs} - names if "__pycache__" not in name
    )


if __name__ == "__main__":
    absent = missing_files(Path(sys.argv[1]))
    if absent:
        sys.exit(f"{sys.argv[1]} lacks {', '.join(absent)}")
