"""Files of a model repository on the Hugging Face hub, or of its copy in the local cache."""

import os
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from flowbert.errors import UserError
from flowbert.notices import hub_bars

TIMEOUT_SECONDS = 10.0


def is_hub_name(name: str) -> bool:
    """Whether a text that is no folder here may name a repository: ``owner/name``, or a name alone.

    Example:
        >>> is_hub_name("owner/name"), is_hub_name("./folder"), is_hub_name("runs/flow/20260101")
        (True, False, False)
    """
    return bool(name) and not name.startswith((".", "~", os.sep)) and name.count("/") <= 1


def split_revision(name: str) -> tuple[str, str | None]:
    """Name of a repository and the commit, branch or tag behind an ``@``, if there is one.

    Example:
        >>> split_revision("owner/name@v1"), split_revision("owner/name")
        (('owner/name', 'v1'), ('owner/name', None))
    """
    repository, _, revision = name.partition("@")
    return repository, revision or None


def is_offline() -> bool:
    """Whether the hub is not to be asked; huggingface_hub reads the variable at import, who sets it later means it."""
    return os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "ON", "YES", "TRUE")


def fetch(
    name: str, revision: str | None, wanted: Callable[[Sequence[str]], Sequence[str]], what: str = "encoder"
) -> tuple[Path, str | None]:
    """Fetch files of a repository, or take them from the cache when the hub cannot be asked.

    Args:
        name: ``owner/name``.
        revision: Commit, branch or tag.
        wanted: From the names of all files to patterns of those that are needed.
        what: What is looked for, for messages.

    Returns:
        The local folder, and the commit.

    Raises:
        UserError: If there is no such repository or revision, or it cannot be had.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        if is_offline():
            return _from_cache(name, revision, wanted, what, "the hub was not asked, HF_HUB_OFFLINE is set")
        info = HfApi().model_info(name, revision=revision, timeout=TIMEOUT_SECONDS)
    except UserError:
        raise
    except RevisionNotFoundError:
        raise UserError(f"{what} {name!r} has no revision {revision!r} on the hub") from None
    except RepositoryNotFoundError:
        raise UserError(f"{what} {name!r}: no such folder here, and no such (public) model on the hub") from None
    except HFValidationError:
        raise UserError(f"{what} {name!r}: no such folder here, and not a hub name (owner/name)") from None
    # Whatever else goes wrong on the way to the hub, the copy in the cache is as good as a fresh one.
    except Exception as error:
        return _from_cache(name, revision, wanted, what, f"the hub cannot be reached ({first_line(error)})")
    chosen = _chosen([sibling.rfilename for sibling in info.siblings or []], wanted)
    try:
        # By the name that was asked for: the cache remembers what it stands for, for when there is no hub to ask.
        with hub_bars():
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=chosen))
    except OSError as error:
        raise UserError(f"{what} {name!r} cannot be fetched from the hub: {first_line(error)}") from error
    return folder, folder.name


def first_line(error: BaseException) -> str:
    """First line of an error's message, or its type; a token that stands in it is left out.

    Example:
        >>> first_line(ValueError("Illegal header value b'Bearer secret'"))
        "Illegal header value b'(token left out)"
    """
    lines = re.sub(r"(?is)bearer\s.*", "(token left out)", str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _chosen(files: Sequence[str], wanted: Callable[[Sequence[str]], Sequence[str]]) -> list[str]:
    """Exactly the files that are needed: a pattern such as ``*.json`` would take those of every folder below, too."""
    patterns = wanted(files)
    return [
        file
        for file in files
        if any(file.count("/") == pattern.count("/") and fnmatch(file, pattern) for pattern in patterns)
    ]


def _from_cache(
    name: str, revision: str | None, wanted: Callable[[Sequence[str]], Sequence[str]], what: str, reason: str
) -> tuple[Path, str | None]:
    from huggingface_hub import get_cached_repo_tree, snapshot_download
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        # Of a repository that was fetched in part, the cache has the names of all files.
        chosen = _chosen([file.path for file in get_cached_repo_tree(name, revision=revision)], wanted)
    except CachedRepoTreeNotFoundError:
        chosen = None
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=chosen, local_files_only=True))
    except OSError:
        named = f"{name!r}, revision {revision!r}" if revision else repr(name)
        raise UserError(
            f"{what} {named}: no such folder here, and not in the local Hugging Face cache; {reason}; "
            "allowed: a folder, a cached model, or any hub name while online"
        ) from None
    return folder, folder.name
