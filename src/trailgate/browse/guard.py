"""Protect the server of a trail: answer only requests with its token, from its own pages, to its own host.

A page of another site cannot read the trail: it does not know the token, and if its owner lets a
DNS name resolve to this machine, that name is not an accepted host. Only reading is allowed, and
POST to a few addresses from the server's own pages. The security policy in the headers keeps
injected content from loading or sending anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
READING: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """An ASGI application that passes allowed requests to ``app``, and rejects all others.

    It removes the token from the path of a request. ``host`` is the name under which the pages are
    served; ``posted`` are the paths that accept POST.
    """

    app: App
    token: str
    host: str
    posted: frozenset[str] = frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: pass it to the application if it is allowed, or reject it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = dict(message.get("headers", ()))
                message["headers"] = [
                    *message.get("headers", ()),
                    *(one for one in HEADERS if one[0] not in own),
                ]
            await send(message)

        status, path = self._judge(scope)
        if status:
            await _refuse(with_headers, status, path)
            return
        await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, with_headers)

    def _judge(self, scope: Scope) -> tuple[int, str]:
        """Decide whether a request is allowed. If so, return 0 and its path after the token.

        Otherwise return the HTTP status of the rejection, and its text or, for a redirect, its
        target.
        """
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if not self._is_own(host):
            return 421, "this server does not serve that host name"
        # browsers send Origin with requests from other sites
        if origin not in (None, f"http://{host}", f"https://{host}"):
            return 403, "requests from pages of other sites are refused"
        token, slash, path = scope["path"].removeprefix("/").partition("/")
        if scope["method"] not in READING:
            if scope["method"] != "POST" or f"/{path}" not in self.posted:
                return 405, "this page accepts no data"
            if origin is None:
                return 403, "a POST needs the Origin header that browsers send"
        # compare_digest takes equally long for every wrong token
        if not compare_digest(token.encode(), self.token.encode()):
            return 404, "the address needs the token that trailgate browse printed"
        return (0, f"/{path}") if slash else (307, f"/{self.token}/")

    def _is_own(self, netloc: str) -> bool:
        """Return whether a host is this server: an IP address, or a name of this machine.

        Every IP address is accepted, because an attacker can only make names resolve to this
        machine.
        """
        try:
            name = urlsplit(f"//{netloc}").hostname or ""
        except ValueError:
            return False
        # A page of another site may use a name of its own that its DNS resolves to this machine
        # (DNS rebinding). The browser then sends that name, which is refused.
        if name in ("localhost", self.host.lower()):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


async def _refuse(send: Send, status: int, text: str) -> None:
    moved = status == 307
    body = b"" if moved else text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if moved:
        headers.append((b"location", text.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
