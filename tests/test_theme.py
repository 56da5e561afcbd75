"""The style sheet has the colours of ``dashboard.theme``, theme by theme."""

from __future__ import annotations

import re

import pytest

from dashboard.app import assets_root
from dashboard.theme import TONES


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_style_sheet_and_python_name_the_same_colours(theme: str):
    text = (assets_root() / "theme.css").read_text(encoding="utf-8")
    selector = ":root {" if theme == "light" else ':root[data-theme="dark"] {'
    block = text[text.index(selector) :].partition("}")[0]
    found = dict(re.findall(r"--ck-([a-z]+):\s*(#[0-9a-f]{6})", block))
    assert {name: found[name] for name in TONES[theme]} == TONES[theme]


def test_nothing_is_fetched_from_elsewhere():
    for path in assets_root().iterdir():
        if path.suffix in (".css", ".js"):
            text = re.sub(r"http://www\.w3\.org/\S+", "", path.read_text(encoding="utf-8"))
            assert not re.search(r"https?://|@import|url\(\s*['\"]?//", text), path.name
