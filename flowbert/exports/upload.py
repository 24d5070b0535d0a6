"""Upload of an exported folder to the Hugging Face hub, with the token of huggingface_hub."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flowbert import __version__
from flowbert.errors import UserError, first_line
from flowbert.folders import MANIFEST


def check_access(name: str) -> None:
    """Check name, token and connection before the export; nothing is created.

    Args:
        name: ``owner/name``.

    Raises:
        UserError: If the hub cannot be reached, or rejects the name or the token.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with _one_line(name):
        validate_repo_id(name)
        HfApi().whoami()


def upload(folder: Path, name: str, private: bool, replaced: Sequence[str]) -> None:
    """Upload a folder, and delete files of an earlier export from the repository.

    Args:
        folder: A complete export.
        name: ``owner/name``; the repository is created if it does not exist.
        private: Make a new repository private; an existing one keeps its setting.
        replaced: Patterns of files of an earlier export to delete; other files are kept.

    Raises:
        UserError: If the hub cannot be reached or denies access.
    """
    from huggingface_hub import HfApi

    with _one_line(name, f"; {folder} is written"):
        HfApi().create_repo(name, private=private, exist_ok=True)
        HfApi().upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message=f"flowbert {__version__}",
            delete_patterns=list(replaced),
            ignore_patterns=[MANIFEST],
        )


@contextmanager
def _one_line(name: str, done: str = "") -> Iterator[None]:
    try:
        yield
    # Names, tokens, rights and connections fail with a dozen unrelated types.
    except Exception as error:
        raise UserError(
            argument="push_to",
            received=name,
            expected=(
                "owner/name on the hub, online, and a token that "
                f"may write to it, of `hf auth login` or HF_TOKEN ({first_line(error)}){done}"
            ),
        ) from error
