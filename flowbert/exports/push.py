"""An exported folder to the Hugging Face hub, with the token that huggingface_hub itself finds and no other."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from flowbert.errors import UserError
from flowbert.io.hub import TIMEOUT_SECONDS, first_line, is_offline
from flowbert.notices import hub_bars

_ASKED_FOR = "HF_TOKEN, or `hf auth login`, with a token that may write"
_REPLACED = ("model/*", "[0-9]_*/*", "[0-9][0-9]_*/*", "flowbert.*", "modules.json", "model.onnx")
"""Files of an earlier export that would mix with a new one that lacks them; all others stay."""


class Destination(NamedTuple):
    """A repository that may be written to.

    Attributes:
        name: ``owner/name``.
        private: Whether it is private, or will be.
        exists: Whether it is there already.
        note: What the user should know of it; empty if nothing.
    """

    name: str
    private: bool
    exists: bool
    note: str = ""


def find_destination(name: str, private: bool = True) -> Destination:
    """Ask the hub whether a repository may be written to, before anything is computed.

    Args:
        name: ``owner/name``.
        private: Whether a new one is private; one that exists stays as it is.

    Raises:
        UserError: If the name is not one, there is no token, the hub refuses it or cannot be reached, or the owner is
            neither the user nor one of their organizations.
    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
        owner, _ = name.split("/")
    except (HFValidationError, ValueError):
        raise UserError(f"push: received {name!r}; allowed: owner/name, of letters, digits, '-', '_' and '.'") from None
    if is_offline():
        raise UserError("push: HF_HUB_OFFLINE is set; allowed: push while online, or export without it")
    with _explained(name):
        if get_token() is None:
            raise UserError(f"push: no token for the hub; needed: {_ASKED_FOR}")
        user = HfApi().whoami()
        owners = [user["name"], *(each["name"] for each in user.get("orgs", ()))]
        if owner not in owners:
            raise UserError(f"push: received {name!r}, but the token is of {owners[0]}; allowed: {', '.join(owners)}")
        if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
            raise UserError(f"push: the token of {owners[0]} may only read; needed: {_ASKED_FOR}")
        try:
            found = HfApi().model_info(name, timeout=TIMEOUT_SECONDS)
        except RepositoryNotFoundError:
            return Destination(name, private, exists=False)
    here = "private" if found.private else "public"
    note = f"{name} was there already and is {here}"
    note += "" if found.private == private else "; that was not changed, it is a setting on the hub's page"
    return Destination(name, bool(found.private), True, note)


def push_folder(folder: Path, destination: Destination, message: str) -> str:
    """Upload an exported folder, and take away what an earlier export left there; gives the address.

    Raises:
        UserError: If the hub refuses it or cannot be reached.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    with _explained(destination.name), hub_bars():
        if not destination.exists:
            api.create_repo(destination.name, private=destination.private, exist_ok=True)
        api.upload_folder(
            repo_id=destination.name, folder_path=folder, commit_message=message, delete_patterns=list(_REPLACED)
        )
    return f"{api.endpoint}/{destination.name}"


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """What goes wrong on the way to the hub, in one line; never with the token in it."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except UserError:
        raise
    # Connections fail with a dozen unrelated types.
    except Exception as error:
        reason: BaseException = error
        while reason.__cause__ is not None and not isinstance(reason, HfHubHTTPError):
            reason = reason.__cause__  # of one file among many
        code = reason.response.status_code if isinstance(reason, HfHubHTTPError) else None
        if code == 401:
            raise UserError(f"push: the hub refuses the token (401); needed: {_ASKED_FOR}") from None
        if code == 403:
            raise UserError(f"push: the token may not write to {name} (403); needed: {_ASKED_FOR} there") from None
        what = "the hub cannot be reached, or refuses" if code is None else f"the hub answers {code}"
        raise UserError(f"push: {name}: {what}: {first_line(reason)}") from None
