"""A stand-in of the hub's HTTP interface, as far as huggingface_hub uses it to write and read models."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import huggingface_hub.constants
import pytest

TOKEN = "hf_standInTokenThatNobodyMayEverSee"
_BINARY = (".safetensors", ".bin", ".onnx")  # what the hub keeps as large files


@dataclass
class Repository:
    """Its visibility, and its files by commit."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.commit({".gitattributes": b""})

    def commit(self, files: dict[str, bytes]) -> str:
        content = f"{len(self.commits)} {sorted((name, _sha256(text)) for name, text in files.items())}"
        self.commits[hashlib.sha1(content.encode()).hexdigest()] = files
        return self.head

    @property
    def head(self) -> str:
        return list(self.commits)[-1]

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.head]

    def at(self, revision: str) -> str | None:
        return self.head if revision == "main" else revision if revision in self.commits else None


@dataclass
class StandIn:
    """What the stand-in holds, and how it answers."""

    url: str = ""
    token: str = TOKEN
    role: str = "write"
    refuses: dict[str, int] = field(default_factory=dict)  # part of a path -> status
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # method and path of every request

    def who(self) -> dict[str, Any]:
        access = {"accessToken": {"role": self.role}}
        return {"type": "user", "name": "user", "orgs": [{"type": "org", "name": "team"}], "auth": access}


def use(monkeypatch: pytest.MonkeyPatch, hub: StandIn, folder: Path, token: str | None = TOKEN) -> None:
    """Let huggingface_hub in this process ask the stand-in, with a cache and a login of its own."""
    constants: Any = huggingface_hub.constants  # read from the environment once, at import
    for name, value in {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,  # its protocol is not that of the stand-in
        "HF_HUB_CACHE": str(folder / "cache"),
        "HF_TOKEN_PATH": str(folder / "token"),
    }.items():
        monkeypatch.setattr(constants, name, value)
    for name, value in environment(hub, folder, token).items():
        monkeypatch.setenv(name, value)
    if token is None:
        monkeypatch.delenv("HF_TOKEN", raising=False)


def environment(hub: StandIn, folder: Path, token: str | None = TOKEN) -> dict[str, str]:
    """The same for a process that starts."""
    found = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_CACHE": str(folder / "cache"),
        "HF_TOKEN_PATH": str(folder / "token"),
    }
    return found | ({} if token is None else {"HF_TOKEN": token})


@contextmanager
def serving() -> Iterator[StandIn]:
    """A stand-in at work."""
    hub = StandIn()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    hub: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        refused = next((code for part, code in self.hub.refuses.items() if part in path), None)
        if refused is not None:
            self._send(refused, {"error": "refused"})
            return
        for method, pattern, answer in _ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method in (self.command, self.command.replace("HEAD", "GET")):
                answer(self, body, *found.groups())
                return
        self._send(404, {"error": f"the stand-in has no {self.command} {path}"})

    do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815  # names of the base class

    def _send(self, code: int, content: Any = b"", **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @property
    def _known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {self.hub.token}"

    def _repository(self, name: str) -> Repository | None:
        """The repository, if it may be seen; says that there is none if not."""
        found = self.hub.repositories.get(name)
        if found is None or (found.private and not self._known):
            self._send(404 if self._known else 401, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
            return None
        return found

    def who(self, _: bytes) -> None:
        self._send(200, self.hub.who()) if self._known else self._send(401, {"error": "Invalid username or password."})

    def create(self, body: bytes) -> None:
        asked = json.loads(body)
        name = f"{asked['organization'] or 'user'}/{asked['name']}"
        if not self._known:
            self._send(401, {"error": "Unauthorized"})
        elif name.split("/")[0] not in ("user", "team"):
            self._send(403, {"error": "You don't have the rights"})
        else:
            there = name in self.hub.repositories
            if not there:
                self.hub.repositories[name] = Repository(asked.get("visibility") == "private")
            self._send(409 if there else 200, {"url": f"{self.hub.url}/{name}"})

    def validate(self, body: bytes) -> None:
        text = json.loads(body)["content"]
        good = re.match(r"---\n.*?\n---\n", text, re.DOTALL) is not None
        self._send(200 if good else 400, {"errors": [] if good else [{"message": "no metadata"}], "warnings": []})

    def info(self, _: bytes, name: str, revision: str | None) -> None:
        repository = self._repository(name)
        if repository is not None:
            commit = repository.at(revision or "main")
            if commit is None:
                self._send(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
                return
            siblings = [{"rfilename": path} for path in repository.commits[commit]]
            self._send(200, {"id": name, "sha": commit, "private": repository.private, "siblings": siblings})

    def tree(self, _: bytes, name: str, revision: str) -> None:
        repository = self._repository(name)
        commit = None if repository is None else repository.at(revision)
        if repository is not None and commit is not None:
            self._send(200, [_listed(path, text) for path, text in repository.commits[commit].items()])

    def preupload(self, body: bytes, name: str, _: str) -> None:
        repository = self._repository(name)
        if repository is not None:
            files = [each["path"] for each in json.loads(body)["files"]]
            modes = [{"path": path, "uploadMode": _mode(path), "shouldIgnore": False} for path in files]
            self._send(200, {"files": modes})

    def batch(self, body: bytes, _: str) -> None:
        objects = json.loads(body)["objects"]
        for each in objects:
            if each["oid"] not in self.hub.objects:
                each["actions"] = {"upload": {"href": f"{self.hub.url}/objects/{each['oid']}"}}
        self._send(200, {"transfer": "basic", "objects": objects})

    def store(self, body: bytes, oid: str) -> None:
        self.hub.objects[oid] = body
        self._send(200 if _sha256(body) == oid else 400)

    def commit(self, body: bytes, name: str, _: str) -> None:
        repository = self._repository(name)
        if repository is None:
            return
        files = dict(repository.files)
        for line in body.splitlines():
            operation = json.loads(line)
            kind, value = operation["key"], operation["value"]
            if kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif kind == "deletedFile":
                del files[value["path"]]
        oid = repository.commit(files)
        self._send(200, {"commitUrl": f"{self.hub.url}/{name}/commit/{oid}", "commitOid": oid})

    def resolve(self, _: bytes, name: str, revision: str, path: str) -> None:
        repository = self._repository(name)
        commit = None if repository is None else repository.at(revision)
        if repository is not None and commit is not None:
            content = repository.commits[commit][path]
            oid = _sha256(content) if _mode(path) == "lfs" else _git_oid(content)
            self._send(200, content, ETag=f'"{oid}"', X_Repo_Commit=commit)


def _mode(path: str) -> str:
    return "lfs" if path.endswith(_BINARY) else "regular"


def _listed(path: str, content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": _git_oid(content)}
    if _mode(path) == "lfs":
        found["lfs"] = {"oid": _sha256(content), "size": len(content), "pointerSize": 100}
    return found


_NAME = r"([^/]+/[^/]+)"
_ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/api/whoami-v2", _Handler.who),
    ("POST", "/api/repos/create", _Handler.create),
    ("POST", "/api/validate-yaml", _Handler.validate),
    ("GET", f"/api/models/{_NAME}(?:/revision/(.+))?", _Handler.info),
    ("GET", f"/api/models/{_NAME}/tree/([^/]+)", _Handler.tree),
    ("POST", f"/api/models/{_NAME}/preupload/([^/]+)", _Handler.preupload),
    ("POST", rf"/{_NAME}\.git/info/lfs/objects/batch", _Handler.batch),
    ("PUT", "/objects/(.+)", _Handler.store),
    ("POST", f"/api/models/{_NAME}/commit/([^/]+)", _Handler.commit),
    ("GET", f"/{_NAME}/resolve/([^/]+)/(.+)", _Handler.resolve),
]
