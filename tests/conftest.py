"""Fixtures shared by all tests: where the corpus of real traces is, and small built traces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("compiled", deadline=None)  # the first example pays for compiling the kernels
settings.load_profile("compiled")

ROOT = Path(__file__).resolve().parent.parent


def corpus_root() -> Path | None:
    """Folder of the real traces: ``CHAKRA_CORPUS``, or ``shared/corpus`` beside the checkout; None where absent."""
    given = os.environ.get("CHAKRA_CORPUS")
    candidates = (
        [Path(given)] if given else [ROOT.parent / "shared" / "corpus", ROOT.parent.parent / "shared" / "corpus"]
    )
    return next((path for path in candidates if path.is_dir()), None)


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests keep nothing in the user's own store."""
    before = os.environ.get("CHAKRA_STORE")
    os.environ["CHAKRA_STORE"] = str(tmp_path_factory.mktemp("store"))
    yield
    if before is None:
        del os.environ["CHAKRA_STORE"]
    else:
        os.environ["CHAKRA_STORE"] = before


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The corpus folder; the test is skipped where there is none."""
    path = corpus_root()
    if path is None:
        pytest.skip("no corpus: set CHAKRA_CORPUS to a folder of real traces")
    return path


@pytest.fixture(scope="session")
def golden(corpus: Path) -> Path:
    """The folder with what the peers compute on the corpus."""
    path = corpus.parent / "golden"
    if not path.is_dir():
        pytest.skip(f"no golden values beside {corpus}")
    return path
