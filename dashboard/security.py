"""Who may talk to the server, and what a page may load: host names, the token, response headers."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask, Response, abort, redirect, request
from werkzeug.wrappers import Response as BaseResponse

if TYPE_CHECKING:
    from dash import Dash

    from dashboard.settings import Settings

__all__ = ["SESSION_COOKIE", "guard", "session_key"]

SESSION_COOKIE = "ck_session"
_TOKEN_COOKIE = "ck_token"  # noqa: S105 - the name of a cookie
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_YEAR = 365 * 24 * 3600


def guard(app: Dash, settings: Settings) -> None:
    """Check every request's host and token, and set the headers that confine a page."""
    server: Flask = app.server
    allowed = settings.hosts or _LOOPBACK

    @server.before_request
    def check() -> BaseResponse | None:
        if _host_of(request.host) not in allowed:
            abort(403, "This server does not answer to that host name.")
        if request.method == "POST" and not _same_origin():
            abort(403, "Requests from other sites are refused.")
        return _check_token(settings.token) if settings.token else None

    @server.after_request
    def confine(response: Response) -> Response:
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("X-Frame-Options", "DENY")
        response.headers.setdefault("Referrer-Policy", "no-referrer")
        response.headers.setdefault("Content-Security-Policy", _policy(app))
        if SESSION_COOKIE not in request.cookies and request.path == app.config.requests_pathname_prefix:
            _set_cookie(response, SESSION_COOKIE, secrets.token_urlsafe(18))
        return response


def _host_of(host: str) -> str:
    """Host name without its port; IPv6 addresses without brackets."""
    return (urlsplit(f"//{host}").hostname or "").lower()


def _same_origin() -> bool:
    """Whether a request that changes something comes from a page of this server (or from no page at all)."""
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


def _check_token(token: str) -> BaseResponse | None:
    """Let in who bears the token; a token in the URL becomes a cookie and vanishes from the address."""
    given = request.args.get("token")
    if given is not None and secrets.compare_digest(given.encode(), token.encode()):
        response: BaseResponse = redirect(request.path)
        _set_cookie(response, _TOKEN_COOKIE, token)
        return response
    kept = request.cookies.get(_TOKEN_COOKIE, "")
    if not secrets.compare_digest(kept.encode(), token.encode()):
        abort(401, "This server needs a token: open it with ?token=… once.")
    return None


def _set_cookie(response: BaseResponse, name: str, value: str) -> None:
    response.set_cookie(name, value, max_age=_YEAR, httponly=True, samesite="Strict", secure=request.is_secure)


def _policy(app: Dash) -> str:
    """Content security policy: nothing from elsewhere, no inline script but Dash's own (by hash)."""
    scripts = " ".join(["'self'", *(f"{entry}" for entry in app.csp_hashes())])
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    )


def session_key() -> str:
    """The visitor's session key from its cookie; empty where it has none."""
    key = request.cookies.get(SESSION_COOKIE, "")
    return key if key.replace("-", "").replace("_", "").isalnum() and 16 <= len(key) <= 64 else ""
