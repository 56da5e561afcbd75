"""The state of a view as the URL holds it."""

from __future__ import annotations

from dashboard.state import ViewState


def test_a_run_that_is_given_many_times_is_one():
    search = "?" + "&".join(["run=samples/a", "run=samples/b"] * 40)
    assert ViewState.parse("/compare", search).runs == ("samples/a", "samples/b")
