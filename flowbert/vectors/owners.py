"""Which processes encode at the moment."""

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

BEAT_SECONDS = 1.0
"""Time between two signs of life."""

SILENT_SECONDS = 10.0
"""Without a sign for so long, a process counts as stopped or killed."""


class Owner:
    """This process while it encodes: a file whose time is renewed every second.

    Args:
        folder: Folder of these files, which processes on all machines share; None for a process
            that shares nothing.

    Attributes:
        name: Name of the file: host, process, and a random part.
    """

    def __init__(self, folder: Path | None) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._path = None if folder is None else folder / self.name
        self._ended = Event()
        self._thread = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> "Owner":
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._path is not None:
            self._ended.set()
            self._thread.join()
            self._path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while self._path is not None and not self._ended.wait(BEAT_SECONDS):
            self._path.touch()

    def living(self) -> set[str]:
        """Names of the processes that encode at the moment; files of others are removed."""
        if self._path is None:
            return set()
        # The file system gives both times, so that clocks of machines may differ.
        self._path.touch()
        now = self._path.stat().st_mtime
        names = set()
        for path, time in _times(self._path.parent):
            if now - time < SILENT_SECONDS:
                names.add(path.name)
            else:
                path.unlink(missing_ok=True)
        return names


def _times(folder: Path) -> Iterator[tuple[Path, float]]:
    for path in folder.iterdir():
        try:
            yield path, path.stat().st_mtime
        except FileNotFoundError:  # it has ended meanwhile
            continue


def describe_owner(owner: str) -> str:
    """The process of an owner's name.

    Example:
        >>> describe_owner("lab-node-812-0f3c")
        'process 812 on lab-node'
    """
    host, process, _ = owner.rsplit("-", 2)
    return f"process {process} on {host}"
