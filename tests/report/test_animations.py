"""The small animations of the climb page: drawn from a recorded launch, whole, and of the right kind."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from recorded_launches import traced

from gemmsmith.report.animation.step_animation import step_animation

KINDS = [("naive", "access"), ("shared_tile", "loop"), ("vectorized", "tile"), ("async_copy", "loop")]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_step_moves(name: str, kind: str) -> None:
    made = str(step_animation(traced(name)))
    assert f'data-name="{kind}"' in made
    assert len(made) < 200_000
    assert "style=" not in made  # which the page's policy forbids
    root = ET.fromstring(made)
    assert len(root.findall(".//animate")) >= 2
    svg = root.find("svg")
    assert svg is not None
    assert svg.get("aria-label")
    high = float(svg.attrib["viewBox"].split()[3])
    for rect in root.iter("rect"):
        assert float(rect.attrib["width"]) >= 0
        assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= high + 0.2
        assert float(rect.attrib["x"]) >= -0.1


def test_an_uncoalesced_access_says_what_is_wasted() -> None:
    made = str(step_animation(traced("naive")))
    assert "128 bytes asked for, 32 sectors of 32 bytes moved, 12 % of them used" in made
    assert len(re.findall(r">A\[\d+\]\[0\]<", made)) == 20


def test_a_thread_keeps_its_outputs_while_k_tiles_pass() -> None:
    made = str(step_animation(traced("vectorized")))
    assert "8 × 8 outputs stay in its registers" in made
