"""gemmsmith view and profile --trace on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_output import Say

import gemmsmith
from gemmsmith.trace.trace_json import read_trace

SIZE = ["--m", "64", "--n", "64", "--k", "32"]
SCALE = """
__global__ void scale(const float* x, float* y, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = by * x[i];
}
"""
LAUNCH = """
import gemmsmith, numpy
launch = gemmsmith.Launch("scale.cu", grid=4, block=64,
                          args=[numpy.ones((8, 32), numpy.float32), numpy.zeros((8, 32), numpy.float32), 2.0, 256])
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cu").write_text(SCALE)
    (tmp_path / "scale.py").write_text(LAUNCH)
    return tmp_path


def test_a_rung_becomes_a_page(say: Say, here: Path) -> None:
    made = say("view", "shared_tile", *SIZE, "--json").json
    assert made["page"] == "shared_tile.view.html"
    written = here / "shared_tile.view.html"
    assert made["bytes"] == written.stat().st_size < 5_000_000
    assert made["views"][:3] == ["ownership", "access", "pipeline"]
    assert "Who owns what" in written.read_text()


def test_any_launch_becomes_a_page(say: Say, here: Path) -> None:
    assert say("view", "scale.py", "--no-open", "--out", "a.html").code == 0
    given = "x=ones(256,f32), y=zeros(256,f32), by=2.0, n=256"
    assert say("view", "scale.cu", "--args", given, "--grid", "4", "--block", "64", "--trace-block", "3", "--no-open",
               "--out", "b.html").code == 0  # fmt: skip
    assert "y[i] = by * x[i]" in (here / "a.html").read_text()
    assert '"traced":[3,0,0]' in (here / "b.html").read_text()


def test_a_trace_is_written_and_viewed(say: Say, here: Path) -> None:
    assert say("profile", "naive", *SIZE, "--trace", "t.json").code == 0
    assert say("profile", "naive", *SIZE, "--trace", "t.perfetto.json").code == 0
    assert say("profile", "naive", *SIZE, "--trace", "t.json.gz").code == 0
    trace = read_trace(here / "t.json")
    assert trace.kernel == "naive"
    assert read_trace(here / "t.json.gz").warps == trace.warps
    assert "traceEvents" in json.loads((here / "t.perfetto.json").read_text())
    assert say("view", "t.json", "--no-open", "--out", "t.html").code == 0


def test_wrong_use_is_refused_in_a_line(say: Say, here: Path) -> None:
    for words, part in ((("view", "naive", *SIZE, "--trace-block", "9"), "the grid is"),
                        (("view", "naive", *SIZE, "--trace-block", "x"), "is no block"),
                        (("view", "nothing.json"), "cannot be read"),
                        (("view", "naive", *SIZE, "--out", "no/where.html"), "cannot write"),
                        (("profile", "naive", *SIZE, "--trace", "no/where.json"), "no folder")):  # fmt: skip
        done = say(*words)
        assert done.code == 2
        assert part in " ".join(done.err.split())
        assert "Traceback" not in done.err
    assert not list(here.glob("*.html"))


def test_python_returns_what_a_notebook_shows(here: Path) -> None:
    made = gemmsmith.view("shared_tile", 64, 64, 32)
    assert made._repr_html_().startswith("<iframe srcdoc=")
    assert made.trace.kernel == "shared_tile"
    assert made.save(here / "nb.html").read_text() == made.html
    launch = gemmsmith.Launch(SCALE, "scale", grid=4, block=64, args="x=ones(256,f32), y=zeros(256,f32), by=2.0, n=256")
    assert gemmsmith.view(launch).trace.arrays[0].name == "x"
    assert gemmsmith.view(made.trace).trace is made.trace


def test_launches_in_variables_are_named_by_them(say: Say, here: Path) -> None:
    (here / "two.py").write_text(LAUNCH.replace("launch = ", "twice = ") + LAUNCH.replace("launch = ", "again = "))
    made = say("view", "two.py:again", "--no-open", "--out", "a.html")
    assert made.code == 0
    assert made.out.startswith("again:")
    refused = say("view", "two.py", "--no-open")
    assert refused.code == 2
    assert "twice, again" in refused.err


def test_two_kernels_take_the_parameters_that_each_has(say: Say, here: Path) -> None:
    """-D reaches both, --y-config the second alone; what neither has is refused."""
    small = ["--m", "64", "--n", "64", "--k", "16", "--no-open", "--out", "two.html"]
    made = say("view", "vectorized", "padded", "-DBM=128", "-DPAD=8", "--y-config", "BK=16", *small)
    assert made.code == 0
    page = (here / "two.html").read_text()
    titles = [line for line in page.splitlines() if "<title>" in line]
    one, other = titles[0].split(" beside ")
    assert "vectorized BM=128, BN=128, BK=8" in one
    assert "PAD" not in one
    assert "padded BM=128, BN=128, BK=16" in other
    assert "PAD=8" in other
    assert page.index('id="tab-compare"') < page.index('id="tab-ownership"')
    refused = say("view", "vectorized", "padded", "-DNOTHING=1", *small)
    assert refused.code == 2
    assert "vectorized has no parameter NOTHING" in refused.err


def test_a_launch_that_faults_is_drawn_and_exits_1(say: Say, here: Path) -> None:
    given = ("--args", "x=ones(256,f32), y=zeros(200,f32), by=2.0, n=256", "--grid", "4", "--block", "64")
    done = say("view", "scale.cu", *given, "--no-open", "--out", "s.html")
    assert done.code == 1
    assert "the launch stopped: out-of-bounds global write of 4 bytes" in done.out
    assert "open s.html" in done.out
    assert "The launch stopped." in (here / "s.html").read_text()
    made = say("view", "scale.cu", *given, "--json")
    assert made.code == 1
    assert len(made.json["faults"]) == 1
