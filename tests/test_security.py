"""The server's doors: host names, origins, the token, sessions, headers, uploads."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from chakra_core.errors import ChakraError
from dashboard.app import create_app
from dashboard.commands.base import EXIT_FAILED
from dashboard.serve import serve, settings_for
from dashboard.settings import Settings
from dashboard.uploads import safe_name
from tests.runs import write_runs

TOKEN = "a-long-enough-secret"  # noqa: S105 - a test's own
BATCH = "batch-one"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    write_runs(folder)
    return folder


def client(root: Path, **more) -> FlaskClient:
    settings = Settings(roots={"built": root}, upload_dir=root.parent / "uploads", **more)
    return create_app(settings).server.test_client()


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8050", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("LOCALHOST.", 200), ("evil.example", 403),
     ("127.0.0.1.evil.example", 403), ("localhost@evil.example", 403), ("", 403)],
)  # fmt: skip
def test_only_names_of_this_machine_are_answered(root: Path, host: str, status: int):
    assert client(root).get("/open", headers={"Host": host}).status_code == status


def test_other_names_can_be_allowed(root: Path):
    named = client(root, hosts=frozenset({"traces.example"}), token=TOKEN)
    assert named.get(f"/open?token={TOKEN}", headers={"Host": "traces.example:80"}).status_code == 303
    assert named.get("/open", headers={"Host": "localhost"}).status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 200), ({"Origin": "http://localhost"}, 200), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
     ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403), ({"Sec-Fetch-Site": "same-origin"}, 200)],
)  # fmt: skip
def test_other_sites_cannot_post(root: Path, headers: dict[str, str], status: int):
    answer = client(root).post(f"/upload?batch={BATCH}&name=a.json", data=b"{}", headers=headers)
    assert answer.status_code == status


def test_the_token_is_needed_once_and_leaves_the_address(root: Path):
    visitor = client(root, token=TOKEN)
    assert visitor.get("/open").status_code == 401
    assert visitor.get("/open?token=wrong").status_code == 401
    assert visitor.get("/_dash-layout").status_code == 401
    assert visitor.get("/assets/theme.css").status_code == 401
    assert visitor.post(f"/upload?batch={BATCH}&name=a", data=b"x").status_code == 401
    first = visitor.get(f"/overview?run=built/host.et&token={TOKEN}&t=1-2")
    assert first.status_code == 303
    assert first.headers["Location"] == "/overview?run=built%2Fhost.et&t=1-2"
    cookie = next(value for value in first.headers.getlist("Set-Cookie") if value.startswith("ck_token"))
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert visitor.get("/open").status_code == 200


def test_the_token_does_not_redirect_elsewhere(root: Path):
    answer = client(root, token=TOKEN).get(f"//evil.example/?token={TOKEN}", base_url="http://localhost")
    assert not answer.headers.get("Location", "/").startswith("//")


def test_every_answer_confines_the_page(root: Path):
    for path in ("/open", "/_dash-layout", "/assets/theme.css", "/nothing-here", "/healthz"):
        with client(root).get(path) as answer:
            headers = answer.headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["object-src"] == "'none'"
        assert "unsafe" not in policy["script-src"]
        assert "http" not in headers["Content-Security-Policy"]


def test_the_page_asks_for_nothing_from_elsewhere(root: Path):
    text = client(root).get("/open").get_data(as_text=True)
    assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//", text)


def test_any_page_starts_a_session_and_keeps_it(root: Path):
    visitor = client(root)
    (cookie,) = visitor.get("/compare?run=x").headers.getlist("Set-Cookie")
    assert re.match(r"ck_session=[A-Za-z0-9_-]{43}; .*HttpOnly; Path=/; SameSite=Strict", cookie)
    assert not visitor.get("/open").headers.getlist("Set-Cookie")
    visitor.set_cookie("ck_session", "../../x")
    assert visitor.get("/open").headers.getlist("Set-Cookie")


def test_an_upload_lands_whole_where_only_its_link_leads(root: Path):
    visitor, other = client(root), client(root)
    first = visitor.post(f"/upload?batch={BATCH}&name=sub/a.json&offset=0&total=6", data=b"abc").get_json()
    assert first["bytes"] == 3
    folder = root.parent / first["folder"]
    assert [path.name for path in (folder / "sub").iterdir()] == [".a.json.part"]
    again = visitor.post(f"/upload?batch={BATCH}&name=sub/a.json&offset=3&total=6", data=b"def").get_json()
    assert again["ref"] == f"{first['folder']}/sub/a.json"
    assert (folder / "sub" / "a.json").read_bytes() == b"abcdef"
    assert re.fullmatch(r"uploads/[0-9a-f]{40}", first["folder"])
    theirs = other.post(f"/upload?batch={BATCH}&name=a.json", data=b"x").get_json()
    assert theirs["folder"] != first["folder"]


def test_a_piece_out_of_order_is_refused(root: Path):
    visitor = client(root)
    visitor.post(f"/upload?batch={BATCH}&name=a&offset=0&total=9", data=b"abc")
    assert visitor.post(f"/upload?batch={BATCH}&name=a&offset=6&total=9", data=b"ghi").status_code == 409
    assert visitor.post(f"/upload?batch={BATCH}&name=a&offset=-1&total=9", data=b"ghi").status_code == 400
    assert visitor.post(f"/upload?batch={BATCH}&name=a&offset=0&total=3", data=b"xyz").status_code == 200


def test_uploads_have_a_limit(root: Path):
    visitor = client(root, max_upload_bytes=10)
    assert visitor.post(f"/upload?batch={BATCH}&name=a", data=b"x" * 11).status_code == 413
    assert visitor.post(f"/upload?batch={BATCH}&name=a", data=b"x" * 6).status_code == 200
    answer = visitor.post(f"/upload?batch={BATCH}&name=b", data=b"x" * 6)
    assert answer.status_code == 413
    assert "GB" in answer.get_json()["error"]
    assert sum(path.stat().st_size for path in (root.parent / "uploads").rglob("*") if path.is_file()) == 6


@pytest.mark.parametrize("batch", ["", "../../etc", "a/b", "short", "x" * 65, "a b c d e f"])
def test_batches_have_plain_names(root: Path, batch: str):
    answer = client(root).post("/upload", query_string={"batch": batch, "name": "a"}, data=b"x")
    assert answer.status_code == 400
    assert not (root.parent / "uploads").exists()


@pytest.mark.parametrize(
    ("name", "kept"),
    [("../../etc/passwd", "etc/passwd"), ("/abs/a.json", "abs/a.json"), ("..\\..\\a.json", "a.json"), ("...", "upload"),
     ("a/../../b", "a/b"), (".ssh/.x", "ssh/x"), ("a\x00b\n.json", "a_b_.json"), ("", "upload"), ("C:\\x.json", "C_/x.json"),
     ("<img src=x>.json", "_img src=x_.json"), ("é" * 300 + ".json", "é" * 97 + ".json")],
)  # fmt: skip
def test_names_of_uploads_stay_below_their_folder(root: Path, name: str, kept: str):
    assert safe_name(name) == kept
    answer = client(root).post("/upload", query_string={"batch": BATCH, "name": name}, data=b"x")
    assert answer.status_code == 200
    (written,) = [path for path in root.parent.rglob("*") if path.is_file() and path.read_bytes() == b"x"]
    assert written.is_relative_to(root.parent / answer.get_json()["folder"])


def test_another_address_than_loopback_needs_a_token(root: Path):
    for host in ("0.0.0.0", "::", "192.0.2.1", "traces.example"):  # noqa: S104 - what is refused
        with pytest.raises(ChakraError, match="--token"):
            serve(Settings(roots={"built": root}), host=host, port=0)
    assert EXIT_FAILED == 1


def test_a_given_file_is_all_that_can_be_reached(root: Path):
    settings = settings_for([root / "host.et"])
    assert settings.opened == ("host.et",)
    assert settings.roots["host.et"] == (root / "host.et").resolve()
    assert root not in settings.roots.values()


def test_a_folder_of_one_run_is_opened_and_others_are_browsed(root: Path):
    assert settings_for([root / "ranks"]).opened == ("ranks",)
    assert settings_for([root]).opened == ()
    twice = settings_for([root / "ranks", root / "ranks"])
    assert twice.opened == ("ranks",)
    with pytest.raises(ChakraError, match="no such file"):
        settings_for([root / "absent"])


def test_the_secret_is_not_printed_with_the_settings(root: Path):
    assert TOKEN not in repr(Settings(roots={"built": root}, token=TOKEN))
    assert "werkzeug.debug" not in sys.modules or not create_app(Settings(roots={"built": root})).server.debug
