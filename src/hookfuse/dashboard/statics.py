"""Styles and scripts, from memory. Their addresses carry a digest of them all, so browsers may keep them for ever."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

PATH = "/dashboard/static"
_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_FOR_EVER = "public, max-age=31536000, immutable"


class Statics:
    def __init__(self) -> None:
        self._files = dict(_walk(files("hookfuse.dashboard").joinpath("static"), ""))
        contents = sorted(self._files.items())
        self._version = sha256(b"".join(name.encode() + content for name, content in contents)).hexdigest()[:12]

    def url(self, name: str) -> str:
        """Where a file is; one that is not there is a mistake of ours."""
        if name not in self._files:
            raise KeyError(name)
        return f"{PATH}/{self._version}/{name}"

    async def serve(self, request: Request) -> Response:
        content = self._files.get(request.path_params["name"])
        if content is None or request.path_params["version"] != self._version:
            return Response("There is no such file.", 404, media_type="text/plain")
        kind = _TYPES[request.path_params["name"].rpartition(".")[2]]
        return Response(content, headers={"cache-control": _FOR_EVER, "content-type": kind})


def _walk(folder: Traversable, before: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        name = f"{before}{each.name}"
        found += _walk(each, f"{name}/") if each.is_dir() else [(name, each.read_bytes())]
    return found
