"""The server as a process: it says where it is, answers, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import dashboard.warm
from dashboard import serve
from dashboard.serve import half_of_memory
from tests.conftest import ROOT
from tests.runs import write_runs


@pytest.fixture
def started(tmp_path: Path):
    """A served process on a free port, with its address and the folder its uploads go to."""
    write_runs(tmp_path)
    uploads = tmp_path / "temporary"
    uploads.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "dashboard", "serve", "--port", "0", str(tmp_path / "host.et")],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(uploads)},
    )  # fmt: skip
    line = ""
    while process.poll() is None and "serving on" not in line:
        line = process.stderr.readline()
    yield process, re.search(r"http://\S+", line)[0], uploads
    process.kill()
    process.stderr.close()
    process.wait()


def test_it_serves_and_cleans_up(started):
    process, address, uploads = started
    with urllib.request.urlopen(f"{address}healthz") as answer:
        assert b"ok" in answer.read()
    with urllib.request.urlopen(f"{address}overview") as answer:
        assert "waitress" not in answer.headers.get("Server", "")
        assert "_dash-renderer" in answer.read().decode()
    urllib.request.urlopen(f"{address}upload?batch=batch-one&name=a", data=b"x").close()
    (folder,) = uploads.glob("chakra-uploads-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert not folder.exists()


def test_a_taken_port_is_one_clear_line(started):
    _, address, _ = started
    port = address.rstrip("/").rsplit(":", 1)[1]
    done = subprocess.run(
        [sys.executable, "-m", "dashboard", "serve", "--port", port],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "choose another with --port" in done.stderr


def test_an_oversized_request_is_refused(started):
    _, address, _ = started
    request = urllib.request.Request(
        f"{address}upload?batch=batch-one&name=a&total=99999999999999", data=b"x", method="POST"
    )
    with pytest.raises(urllib.error.HTTPError, match="413") as caught:
        urllib.request.urlopen(request)
    caught.value.close()


def test_half_of_the_memory_is_the_default():
    half = half_of_memory()
    assert 2**28 < half <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def test_warming_up_happens_with_kernels_in_the_cache_too_and_may_fail(monkeypatch, caplog):
    done = []
    monkeypatch.setattr(dashboard.warm, "warm", lambda: done.append(1))
    serve._warm()
    assert done == [1]
    monkeypatch.setattr(dashboard.warm, "warm", lambda: 1 // 0)
    serve._warm()
    assert "warming up failed" in caplog.text
