"""The application factory: the only place where a Dash is made."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from dash import Dash, set_props
from flask import jsonify

from chakra_core.errors import ChakraError
from chakra_core.store import Store
from dashboard import export_dialog
from dashboard.exports import Exports, register_exports
from dashboard.library import UPLOADS, Library
from dashboard.pages import PAGES
from dashboard.security import guard
from dashboard.settings import Settings
from dashboard.shell import layout, register
from dashboard.uploads import register_uploads

__all__ = ["assets_root", "create_app"]

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 20.0
"""Longest that one request waits for a run to open."""

_INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <title>{%title%}</title>
        {%favicon%}
        {%css%}
        <script src="/assets/boot.js"></script>
    </head>
    <body>
        {%app_entry%}
        <footer>
            {%config%}
            {%scripts%}
            {%renderer%}
        </footer>
    </body>
</html>"""


def assets_root() -> Path:
    """Folder of scripts and styles: inside the package when installed, at the top of the repository otherwise.

    Raises:
        ChakraError: neither is there.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "assets", here.parent / "assets"):
        if (folder / "theme.css").is_file():
            return folder
    raise ChakraError(f"no assets: neither {here} nor its parent holds assets/theme.css")


def create_app(settings: Settings) -> Dash:
    """Make the application: one Dash with its own library, routes and callbacks; any number can live in one process."""
    roots = dict(settings.roots)
    if settings.upload_dir is not None:
        roots[UPLOADS] = settings.upload_dir
    library = Library(
        roots,
        memory_limit=settings.memory_limit_bytes,
        store=_store(settings, settings.store),
        upload_store=_store(settings, settings.store if settings.keep_uploads else _beside_uploads(settings)),
        patience=_PATIENCE_S,
        prepare=[page.prepare for page in PAGES if page.prepare is not None],
    )
    app = Dash(
        __name__,
        assets_folder=str(assets_root()),
        assets_ignore=r"boot\.js",
        pages_folder="",
        title="Chakra dashboard",
        update_title="",
        suppress_callback_exceptions=True,
        on_error=_show_error,
        index_string=_INDEX,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.layout = lambda: layout(settings)
    register(app, library)
    for page in PAGES:
        page.register(app, library)
    app.server.config["MAX_CONTENT_LENGTH"] = None
    register_uploads(app.server, settings)
    exports = Exports()
    register_exports(app.server, exports)
    export_dialog.register(app, library, exports)

    @app.server.get("/healthz")
    def healthz() -> Any:
        return jsonify(status="ok")

    guard(app, settings)
    return app


def _store(settings: Settings, folder: Path | None) -> Store | None:
    return Store(folder, limit_bytes=settings.store_limit_bytes) if settings.store and folder else None


def _beside_uploads(settings: Settings) -> Path | None:
    """Where uploads that are deleted with the server are kept once they are opened: deleted with them."""
    return settings.upload_dir / ".store" if settings.upload_dir else None


def _show_error(error: Exception) -> None:
    """A callback failed: say it on screen in one line and keep the traceback in the log."""
    if not isinstance(error, ChakraError):
        _LOG.error("a callback failed", exc_info=error)
    set_props("toast", {"children": f"{type(error).__name__}: {error}"[:600], "style": {"display": "block"}})
