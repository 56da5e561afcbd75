"""Who may talk to the server, and what a page may load: host names, the token, response headers."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from flask import Flask, Response, abort, g, redirect, request
from werkzeug.wrappers import Response as BaseResponse

if TYPE_CHECKING:
    from dash import Dash

    from dashboard.settings import Settings

__all__ = ["SESSION_COOKIE", "TOKEN_COOKIE", "guard", "host_name", "session_key"]

SESSION_COOKIE = "ck_session"
"""Cookie with the random key that tells one visitor's uploads from another's."""

TOKEN_COOKIE = "ck_token"  # noqa: S105 - the name of a cookie
"""Cookie that holds the token after a visit with ``?token=``."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_KEY = re.compile(r"[A-Za-z0-9_-]{43}")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_YEAR = 365 * 24 * 3600


def guard(app: Dash, settings: Settings) -> None:
    """Check every request's host, origin and token, and set the headers that confine a page."""
    server: Flask = app.server
    allowed = settings.hosts or _LOOPBACK
    policy: list[str] = []

    @server.before_request
    def check() -> BaseResponse | None:
        if "*" not in allowed and host_name(request.headers.get("Host", "")) not in allowed:
            abort(403, "This server does not answer to that host name.")
        if request.method not in _SAFE_METHODS and not _same_origin():
            abort(403, "Requests from other sites are refused.")
        return _check_token(settings.token) if settings.token else None

    @server.after_request
    def confine(response: Response) -> Response:
        if not policy:
            policy.append(_policy(app))  # all callbacks are registered by now
        response.headers.setdefault("Content-Security-Policy", policy[0])
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("X-Frame-Options", "DENY")
        response.headers.setdefault("Referrer-Policy", "no-referrer")
        response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        if response.status_code < 400 and (response.mimetype == "text/html" or g.get("session_is_new")):
            session_key()
            if g.get("session_is_new"):
                _set_cookie(response, SESSION_COOKIE, str(g.session_key))
        return response


def host_name(header: str) -> str:
    """The name in a Host header: without port, brackets and final dot, in lower case; empty where there is none.

    >>> host_name("[::1]:8050"), host_name("LocalHost.:80"), host_name("bad]")
    ('::1', 'localhost', '')
    """
    try:
        return (urlsplit(f"//{header}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def session_key() -> str:
    """The visitor's key: that of the cookie, or a new one, which the answer then sets."""
    if "session_key" not in g:
        given = request.cookies.get(SESSION_COOKIE, "")
        g.session_is_new = _KEY.fullmatch(given) is None
        g.session_key = secrets.token_urlsafe(32) if g.session_is_new else given
    return str(g.session_key)


def _same_origin() -> bool:
    """Whether a request that changes something comes from a page of this server (or from no page at all)."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("Host", "")


def _check_token(token: str) -> BaseResponse | None:
    """Let in who bears the token; a token in the URL becomes a cookie and vanishes from the address."""
    given = request.args.get("token")
    if given is not None and secrets.compare_digest(given.encode(), token.encode()):
        rest = [(key, value) for key, value in request.args.items(multi=True) if key != "token"]
        path = "/" + request.path.lstrip("/\\")  # //name would lead to another server
        response: BaseResponse = redirect(f"{path}?{urlencode(rest)}" if rest else path, 303)
        _set_cookie(response, TOKEN_COOKIE, token)
        return response
    kept = request.cookies.get(TOKEN_COOKIE, "")
    if not secrets.compare_digest(kept.encode(), token.encode()):
        abort(401, "This server needs a token: open it with ?token=… once.")
    return None


def _set_cookie(response: BaseResponse, name: str, value: str) -> None:
    response.set_cookie(name, value, max_age=_YEAR, httponly=True, samesite="Strict", secure=request.is_secure)


def _policy(app: Dash) -> str:
    """Content security policy: nothing from elsewhere, no inline script but Dash's own (by hash).

    Styles may be inline: the component libraries and Plotly write them from scripts.
    """
    scripts = " ".join(["'self'", *app.csp_hashes()])
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "connect-src 'self'",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    )
