"""An exported folder on the Hugging Face hub, with the token that huggingface_hub has."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flowbert import __version__
from flowbert.errors import UserError, first_line
from flowbert.folders import MANIFEST


def check_access(name: str) -> None:
    """Find out before any work that nothing can be uploaded; nothing is created.

    Args:
        name: ``owner/name``.

    Raises:
        UserError: If the hub cannot be reached, or refuses the name or the token.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with _one_line(name):
        validate_repo_id(name)
        HfApi().whoami()


def upload(folder: Path, name: str, private: bool, replaced: Sequence[str]) -> None:
    """Upload a folder, and delete what an earlier export has left in the repository.

    Args:
        folder: A whole export.
        name: ``owner/name``; a repository that does not exist is created.
        private: Make a new one private; one that exists stays as it is.
        replaced: Patterns of files of an earlier export that this one may lack; all others stay.

    Raises:
        UserError: If the hub cannot be reached or refuses.
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
