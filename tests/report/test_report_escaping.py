"""Hostile names and sources stay text on the page."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from report_pages import nothing, tree
from report_reading import Node, read
from report_sample import MACHINE, measurement, sample

from gemmsmith.report import page
from gemmsmith.report.figures.names import anchors
from gemmsmith.report.report_model import Sweep, SweepPoint
from gemmsmith.store.results import Run

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


@cache
def hostile() -> Node:
    """Every external text is an injection attempt."""
    model, ours = sample(), sample().rungs[0]
    header = f"// Idea      {EVIL}\n// Owns      x\n//\n//  {EVIL}\n"
    source = f"{header}\n__global__ void k() {{}} // {EVIL}\n/* {EVIL}\n{EVIL} */\n"
    assert ours.profile is not None
    line = replace(ours.profile.lines[0], file=EVIL + ".cu", number=6, text=EVIL)
    bad = replace(ours, name=EVIL, file=EVIL + ".cu", summary=EVIL, teaches=EVIL, source=source, config=EVIL,
                  verified=EVIL, why=(EVIL, EVIL), before=EVIL, loop=(EVIL,), trusted=False,
                  profile=replace(ours.profile, lines=(line, replace(line, file=EVIL + ".cuh"))))  # fmt: skip
    machine = replace(MACHINE, gpu=EVIL, host=EVIL, packages=((EVIL, EVIL),))
    one = measurement("cublas", "baseline", "fp32", 4096, 50.0)
    timed = Run(EVIL, EVIL, EVIL, EVIL, machine, (
        replace(one, identity=replace(one.identity, name=EVIL)), replace(one, rejected=EVIL),
        replace(one, identity=replace(one.identity, name=EVIL, kind="rung")),
    ))  # fmt: skip
    sweep = Sweep(EVIL, (EVIL, "b"), EVIL, tuple(
        SweepPoint((a, b), 1.0) if a != b else SweepPoint((a, b), illegal=EVIL)
        for a in (EVIL, "1") for b in (EVIL, "1")
    ), "recorded", EVIL, EVIL)  # fmt: skip
    published = tuple(replace(p, source=EVIL, config=EVIL, baseline=EVIL, gpu=EVIL) for p in model.published)
    made = replace(model.made, command=EVIL, date=EVIL, gemmsmith=EVIL, machine=machine)
    gpu = replace(model.gpu, name=EVIL, sources=(("compute", EVIL),))
    return read(page(replace(model, gpu=gpu, rungs=(bad, *model.rungs[1:]), made=made, sweeps=(sweep,),
                             recorded=(timed, *model.recorded), published=published)))  # fmt: skip


def test_hostile_names_and_sources_stay_text() -> None:
    made = hostile()
    known = {n.tag for n in tree().walk()} | {"strong"}
    assert len(made.all("script")) == 1
    assert "alert" not in made.one("script").text
    assert not made.all("img")
    for node in made.walk():
        assert not [name for name in node.attributes if name.startswith("on")]
        assert node.tag in known, node.tag
    assert EVIL in made.text


def test_a_hostile_source_line_is_shown_verbatim() -> None:
    bodies = [table.one("tbody") for table in hostile().all("table", "source")]
    rows = [row.all("td")[-1].text for body in bodies for row in body.all("tr")]
    assert f"__global__ void k() {{}} // {EVIL}" in rows
    assert f"{EVIL} */" in rows


def test_anchors_are_plain_and_unique() -> None:
    rungs = [replace(nothing().rungs[0], name=name) for name in ("a b", "a<b", EVIL, "", "ok_1")]
    made = anchors(rungs)
    assert len(set(made.values())) == len(rungs)
    assert all(re.fullmatch(r"rung-[A-Za-z0-9_-]+", anchor) for anchor in made.values())
