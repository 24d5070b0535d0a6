"""A server on this machine that answers as the Hugging Face hub does, from a folder."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serve_hub(folder: Path) -> Iterator[str]:
    """Serve the repositories ``datasets/OWNER/NAME`` of a folder; yields ``HF_ENDPOINT``."""

    class Handler(_Handler):
        root = folder

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    """The hub's answers on information, folders and files of a repository.

    References:
        https://huggingface.co/docs/hub/api
    """

    root: Path

    def do_GET(self) -> None:
        words = unquote(urlparse(self.path).path).strip("/").split("/")
        if words[0] == "api":
            self._describe(words[1:])
        elif "resolve" in words:
            at = words.index("resolve")
            self._send_file(self.root.joinpath(*words[:at], *words[at + 2 :]))
        else:
            self._refuse()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"])).decode()
        words = unquote(urlparse(self.path).path).strip("/").split("/")
        if words[4:5] != ["paths-info"]:
            self._refuse()
            return
        try:
            paths = json.loads(content)["paths"]
        except ValueError:
            paths = parse_qs(content)["paths"]
        folder = self.root.joinpath(*words[1:4])
        self._send_json(
            [
                _entry(folder, folder / path)
                for path in paths
                if (folder / path).exists()
            ]
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def _describe(self, words: list[str]) -> None:
        folder = self.root.joinpath(*words[:3])
        if not folder.is_dir():
            self._refuse()
        elif words[3:4] == ["tree"]:
            below = folder.joinpath(*words[5:])
            if not below.is_dir():
                self._refuse("EntryNotFound")
                return
            deep = "recursive=true" in self.path.lower()
            found = below.rglob("*") if deep else below.glob("*")
            self._send_json([_entry(folder, path) for path in sorted(found)])
        else:
            files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            names = [{"rfilename": str(path.relative_to(folder))} for path in files]
            name = "/".join(words[1:3])
            self._send_json(
                {
                    "_id": COMMIT[:24],
                    "id": name,
                    "sha": COMMIT,
                    "siblings": names,
                    "tags": [],
                    "private": False,
                    "disabled": False,
                    "downloads": 0,
                    "likes": 0,
                }
            )

    def _send_file(self, path: Path) -> None:
        if not path.is_file():
            self._refuse("EntryNotFound")
            return
        self._send(200, path.read_bytes(), {"ETag": f'"{_digest(path)}"'})

    def _send_json(self, value: Any) -> None:
        content = json.dumps(value).encode()
        self._send(200, content, {"Content-Type": "application/json"})

    def _refuse(self, code: str = "RepoNotFound") -> None:
        self._send(404, b"", {"X-Error-Code": code})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        length = {"Content-Length": f"{len(content)}", "X-Repo-Commit": COMMIT}
        for name, value in {**headers, **length}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _entry(folder: Path, path: Path) -> dict[str, Any]:
    kind = "directory" if path.is_dir() else "file"
    entry: dict[str, Any] = {"type": kind, "oid": COMMIT}
    entry["path"] = str(path.relative_to(folder))
    if path.is_file():
        entry |= {"size": path.stat().st_size, "oid": _digest(path)}
    return entry


def _digest(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()
