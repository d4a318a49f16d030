"""Forms for notebooks: plain, small, escaped, and readable on a dark page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.notebook_html import card, facts, folded, listing, paragraph, preformatted, table

EVIL = '<script>alert("x")</script>&'
RACY = """
__global__ void k(float* x, const float* y) {
    x[threadIdx.x % 2] = y[threadIdx.x];
    printf("<b>%d</b>\\n", threadIdx.x);
}
"""


class Balanced(HTMLParser):
    """Every tag is closed in its turn; only known, harmless tags and attributes."""

    allowed = frozenset(
        ["div", "strong", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary"]
    )

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.allowed, tag
        assert {name for name, _ in attrs} <= {"style", "class", "scope"}, attrs
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def is_sound(html: str) -> None:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    assert len(html) < 40_000
    for style in re.findall(r'style="([^"]*)"', html):
        for declaration in style.split(";"):
            name, _, value = declaration.partition(":")
            assert name.strip() != "color" or value == "inherit", style  # the notebook's own
            assert name.strip() != "background" or value == "none", style


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One result of each kind."""
    folder = tmp_path_factory.mktemp("forms")
    (folder / "<b>.cu").write_text(Path(__file__).parents[1].joinpath("docs/examples/tile.cu").read_text())
    a = np.ones((32, 32), np.float32)
    return {
        "plan": gemmsmith.plan(a, a),
        "right": gemmsmith.check("shared_tile", 32, 32, 32),
        "wrong": gemmsmith.check(folder / "<b>.cu"),
        "profile": gemmsmith.profile("shared_tile", 64, 64, 64),
        "comparison": gemmsmith.compare("coalesced", "shared_tile", 256, 256, 256),
        "launch": gemmsmith.launch(RACY, grid=1, block=32, args=[a[0, :2], np.arange(32, dtype=np.float32)]),
    }


@pytest.mark.parametrize(
    ("name", "says"),
    [("plan", "Plan for 32x32x32 fp32"), ("right", "ok: shared_tile 32x32x32 fp32"), ("wrong", "RACE: &lt;b&gt;.cu"),
     ("profile", "simulated on simulator (sm_90)"), ("comparison", "is predicted to be"), ("launch", "k: races")],
)  # fmt: skip
def test_a_result_has_a_form_of_its_own(forms: dict[str, Any], name: str, says: str) -> None:
    html = forms[name]._repr_html_()
    is_sound(html)
    assert says in html


def test_figures_have_their_origin(forms: dict[str, Any]) -> None:
    assert "predicted, not measured; counts are simulated" in forms["comparison"]._repr_html_()
    assert "counters (simulated)" in forms["launch"]._repr_html_()


def test_names_of_users_are_escaped(forms: dict[str, Any]) -> None:
    assert "&lt;b&gt;.cu" in forms["wrong"]._repr_html_()
    assert "&lt;b&gt;0&lt;/b&gt;" in forms["launch"]._repr_html_()
    assert "<b>" not in forms["launch"]._repr_html_()


def test_every_part_escapes() -> None:
    made = [paragraph(EVIL), listing([EVIL]), facts([(EVIL, EVIL)]), table([EVIL], [[EVIL]]), preformatted(EVIL),
            folded(EVIL, paragraph("x"))]  # fmt: skip
    html = card(EVIL, made)
    is_sound(html)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 9


def test_a_table_has_the_colour_of_the_text_around_it() -> None:
    """Else a page without a doctype shows it in black, also on black."""
    assert re.search(r"<table style=[^>]*color:inherit", table(["a"], [["b"]]))


def test_what_is_unsound_would_be_found() -> None:
    with pytest.raises(AssertionError):
        is_sound("<div><p></div>")
    with pytest.raises(AssertionError):
        is_sound('<p style="color:black">x</p>')
    with pytest.raises(AssertionError):
        is_sound('<p style="background:white">x</p>')
    with pytest.raises(AssertionError):
        is_sound("<script></script>")


def test_empty_parts_are_left_out() -> None:
    assert paragraph("") == listing([]) == folded("x", "") == ""
    assert "<thead>" not in facts([("a", "b")])


def test_what_may_be_no_product_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "add.cu"
    file.write_text(
        "__global__ void add(const float* A, const float* B, float* C, int N) {\n"
        "    int i = blockIdx.x * 256 + threadIdx.x;\n    if (i < N) C[i] = A[i] + B[i];\n}\n"
    )
    with pytest.raises(gemmsmith.GemmsmithError):
        gemmsmith.check(file)
    with pytest.raises(gemmsmith.GemmsmithError, match="cannot read"):
        gemmsmith.profile(tmp_path / "none.cu")
    with pytest.raises(gemmsmith.GemmsmithError, match="no rung"):
        gemmsmith.compare("nosuch", "naive")
    with pytest.raises(gemmsmith.GemmsmithError, match="launches no block"):
        gemmsmith.profile("naive", 0, 8, 8)
