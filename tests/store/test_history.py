"""gemmsmith history: lists, one run, and what got faster or slower."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from measured_runs import MACHINE, measurement, run, timing
from recorded_database import record

from gemmsmith.cli.render.history_tables import short
from gemmsmith.problem import BF16, TF32, Problem
from gemmsmith.store.results import Conditions, Machine, Measurement
from gemmsmith.store.run_comparison import Change, compare_runs

# --- comparison -----------------------------------------------------------------------------------------------------


def verdict(a: Measurement, b: Measurement, **options: Any) -> Change:
    (change,) = compare_runs(run("a", a), run("b", b), **options).changes
    return change


@pytest.mark.parametrize(
    ("before", "after", "half", "found"),
    [
        (100.0, 100.0, 0.002, "same"),
        (100.0, 105.0, 0.002, "slower"),
        (105.0, 100.0, 0.002, "faster"),
        (100.0, 105.0, 0.030, "same"),  # intervals overlap: 103 and 101.85
        (105.0, 100.0, 0.030, "same"),
        (100.0, 100.9, 0.001, "same"),  # beyond noise, but less than a per cent
        (100.9, 100.0, 0.001, "same"),
        (100.0, 101.1, 0.001, "slower"),
        (101.1, 100.0, 0.001, "faster"),
        (100.0, math.nan, 0.001, "unclear"),
        (100.0, 90.0, math.nan, "unclear"),
        (0.0, 90.0, 0.001, "unclear"),
    ],
)
def test_faster_and_slower_are_beyond_noise(before: float, after: float, half: float, found: str) -> None:
    a, b = (measurement(timings=(timing(micro, half=half),)) for micro in (before, after))
    change = verdict(a, b)
    assert change.verdict == found
    assert change.regression == (found == "slower")
    if found != "unclear":
        assert change.speedup == pytest.approx(before / after)
        assert change.low < change.speedup < change.high


def test_the_least_change_is_configurable() -> None:
    a, b = (measurement(timings=(timing(micro, half=0.001),)) for micro in (100.0, 103.0))
    assert [verdict(a, b, least_change=least).verdict for least in (0.0, 0.02, 0.04)] == ["slower", "slower", "same"]


@pytest.mark.parametrize(
    "changes",
    [{"size": 2048}, {"name": "naive"}, {"identity": {"precision": "tf32"}}, {"origin": "simulated"},
     {"problem": Problem(1024, 1024, 1024, beta=1.0)}, {"problem": Problem(1024, 1024, 1024, trans_b=True)}],
)  # fmt: skip
def test_different_measurements_are_not_compared(changes: dict[str, Any]) -> None:
    found = compare_runs(run("a", measurement()), run("b", measurement(**changes))).changes
    assert [change.verdict for change in found] == ["only in A", "only in B"]
    assert not any(change.regression for change in found)


def test_a_problem_with_nan_equals_itself() -> None:
    odd = Problem(8, 8, 8, alpha=math.nan)
    assert verdict(measurement(problem=odd), measurement(problem=Problem(8, 8, 8, alpha=math.nan))).verdict == "same"


def test_timings_are_matched_by_mode_and_cache() -> None:
    a = measurement(timings=(timing(100.0), timing(80.0, "stream", "hot"), timing(50.0, "graph", "hot")))
    b = measurement(timings=(timing(70.0, "stream", "hot"), timing(110.0), timing(50.0, "stream", "cold")))
    found = compare_runs(run("a", a), run("b", b)).changes
    assert [(c.verdict, c.mode, c.cache) for c in found] == [("slower", "graph", "cold"), ("faster", "stream", "hot")]


def test_a_changed_configuration_or_source_is_compared_and_noted() -> None:
    change = verdict(measurement(), measurement(micro=120.0, identity={"config": "BM=128", "digest": "d2"}))
    assert change.verdict == "slower"
    assert change.notes == ("configuration BM=64,BN=64 → BM=128",)
    assert verdict(measurement(), measurement(identity={"digest": "d2"})).notes == ("source changed",)
    assert verdict(measurement(), measurement(identity={"version": "0.2"})).notes == ("version 0.1.0 → 0.2",)


def test_a_sweep_is_matched_by_configuration() -> None:
    a = [measurement(micro=100.0 + i, identity={"config": f"BK={i}"}) for i in range(3)]
    b = [measurement(micro=2 * (100.0 + i), identity={"config": f"BK={i}"}) for i in (2, 0, 1)]
    found = compare_runs(run("a", *a), run("b", *b)).changes
    assert [change.speedup for change in found] == pytest.approx([0.5] * 3)
    # Two unmatched timings of one contender: the match is ambiguous.
    found = compare_runs(run("a", *a), run("b", b[1], measurement(identity={"config": "new"}))).changes
    assert [change.verdict for change in found] == ["slower", "only in A", "only in A", "only in B"]


def test_a_measurement_that_became_invalid_is_broken() -> None:
    for worse in ({"verified": False}, {"rejected": "above the roofline"}):
        change = verdict(measurement(), measurement(micro=50.0, **worse))
        assert (change.verdict, change.regression) == ("broken", True)
        assert change.notes[0] == f"B: {worse.get('rejected', 'not verified')}"
        change = verdict(measurement(**worse), measurement())
        assert (change.verdict, change.regression) == ("unclear", False)


def test_no_common_timing_is_noted() -> None:
    change = verdict(measurement(timings=()), measurement())
    assert (change.verdict, change.notes) == ("unclear", ("no common timing",))


def test_a_slower_library_is_a_remark_not_a_regression() -> None:
    a, b = measurement("cublas", 100.0, kind="baseline"), measurement("cublas", 110.0, kind="baseline")
    found = compare_runs(run("a", a), run("b", b))
    assert found.changes[0].verdict == "slower"
    assert found.regressions == ()
    assert "cublas has the same version in both" in found.remarks[-1]
    newer = measurement("cublas", 110.0, kind="baseline", identity={"version": "14"})
    assert compare_runs(run("a", a), run("b", newer)).remarks == ()


def test_different_machines_are_remarked_first() -> None:
    other = dataclasses.replace(
        MACHINE, gpu="NVIDIA A100", driver="590.1", packages=(("torch", "2.12"), ("numpy", "2.3"))
    )
    found = compare_runs(run("a", measurement()), run("b", measurement(), machine=other))
    assert found.remarks[0].startswith("the GPUs differ: NVIDIA H200 in A, NVIDIA A100 in B")
    assert found.remarks[1:] == (
        "the drivers differ: 580.65 in A, 590.1 in B",
        "packages differ: torch 2.11 → 2.12",
    )
    assert compare_runs(run("a"), run("b")).remarks == ()
    for name in ("cuda", "compiler", "host", "cpu", "python"):
        (remark,) = compare_runs(run("a"), run("b", machine=dataclasses.replace(MACHINE, **{name: "new"}))).remarks
        assert remark.endswith(f"{getattr(MACHINE, name)} in A, new in B")
    assert compare_runs(run("a"), run("b", gemmsmith="9")).remarks == ("gemmsmith differs: 0.1.0 in A, 9 in B",)


def test_clocks_and_throttling_are_remarked() -> None:
    slow = measurement(conditions=Conditions(sm_mhz=1650.0, throttled=("heat", "power")))
    remarks = compare_runs(run("a", measurement()), run("b", slow)).remarks
    assert remarks == (
        "the SM clock was 1,755 MHz in A and 1,650 MHz in B (-6.0 %)",
        "only B was throttled by: heat",
    )
    assert compare_runs(run("a", measurement()), run("b", measurement(conditions=Conditions()))).remarks == (
        "only A was throttled by: power",
    )


# --- the commands ---------------------------------------------------------------------------------------------------


def test_an_empty_database_says_how_to_fill_it(say: Any, db: Path) -> None:
    code, out, _ = say()
    assert code == 0
    assert str(db) in out.replace("\n", "")
    assert "gemmsmith bench" in out
    assert json.loads(say("--json")[1]) == {"database": str(db), "recorded": 0, "runs": []}
    assert not db.parent.exists(), "looking makes nothing"
    for command in ("show", "compare"):
        code, _, err = say(command)
        assert code == 2
        assert "no runs in" in err
        assert "gemmsmith bench" in err


def test_the_list(say: Any, db: Path) -> None:
    best = measurement("fast", 10.0)
    record(db, run("0123456789", measurement(), best, measurement("lie", 0.1, rejected="above the roofline"), day=14),
           run("0123456abc", day=16, command="gemmsmith bench [bold]x"),
           run("fedcba9876", measurement(verified=False), machine=Machine("h", "s", "c", "p"), day=12))  # fmt: skip
    code, out, _ = say()
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "0123456a", "01234567", "fedcba98"]
    assert "[bold]x" in lines[1]
    assert "2026-11-14 08:30" in lines[2]
    assert "H200" in lines[2]
    assert lines[2].split()[-3:] == ["3", f"{best.tflops:.4g}", "fast"]
    assert lines[3].split()[-2:] == ["none", "1"], "no best where nothing may be believed"
    listed = json.loads(say("--json", "--limit", "2")[1])
    assert [entry["short"] for entry in listed["runs"]] == ["0123456a", "01234567"]
    assert listed["recorded"] == 3
    assert listed["runs"][0]["best"] is None
    assert listed["runs"][1]["best"]["tflops"] == best.tflops
    assert "2 of 3 runs" in say("--limit", "2")[1]
    assert len(json.loads(say("--json", "--gpu", "h200")[1])["runs"]) == 2
    assert len(json.loads(say("--json", "--since", "2026-11-15")[1])["runs"]) == 1
    assert "None of the 3 runs" in say("--gpu", "B200")[1]


def test_the_list_distinguishes_long_commands(say: Any, db: Path) -> None:
    usual = "gemmsmith bench mma_pipelined wmma --shapes 1024,2048,4096,8192 --out-dtype fp32 --layout"
    record(db, run("a", day=14, command=f"{usual} NN --against cublas --budget 5 --seed 0"),
           run("b", day=15, command=f"{usual} NT --against cublas,triton --budget 50 --seed 0"),
           run("c", day=16, command=f"gemmsmith bench {'first ' * 40}--dtype tf32 --layout NT"))  # fmt: skip
    words = _column(say()[1], "command")
    assert words == [
        "bench first first first first first first first f … first first first first --dtype tf32 --layout NT",
        "bench mma_pipelined wmma --shapes 1024,2048,4096,8192 --layout NT --against cublas,triton --budget 50",
        "bench mma_pipelined wmma --shapes 1024,2048,4096,8192",
    ]


def _column(out: str, heading: str) -> list[str]:
    """A column's cells; a line that starts with a space continues the cell above."""
    head, *lines = out.splitlines()
    start = head.index(heading)
    cells: list[str] = []
    for line in lines:
        text = line[start:].split("  ")[0]
        if line.startswith(" "):
            cells[-1] = f"{cells[-1]} {text}".strip()
        else:
            cells.append(text)
    return cells


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (Problem(4096, 4096, 4096), "4096x4096x4096 fp32 NN"),
        (Problem(4096, 4096, 4096, TF32, trans_a=True), "4096x4096x4096 tf32 TN"),
        (Problem(4096, 4096, 4096, BF16, trans_b=True), "4096x4096x4096 bf16 to fp32 NT"),
        (Problem(16384, 16384, 16384, BF16, BF16, trans_b=True), "16384x16384x16384 bf16 to bf16 NT"),
        (Problem(64, 64, 64, BF16, BF16, beta=1, batch=2), "2 of 64x64x64 bf16 to bf16 NN alpha=1 beta=1"),
    ],
)
def test_layout_and_output_type_are_always_shown(problem: Problem, shown: str, say: Any, db: Path) -> None:
    record(db, run("a", measurement(problem=problem), day=14), run("b", measurement(problem=problem)))
    assert _column(say("show")[1].partition("\n\n")[2], "problem")[0] == shown
    assert _column(say("compare", "--all")[1].partition("\n\n")[2], "problem")[0] == shown


def test_tf32_is_never_shown_as_fp32(say: Any, db: Path) -> None:
    tf32 = {"precision": "tf32"}
    record(db, run("a", measurement("triton", identity=tf32), measurement("cublas-tf32", identity=tf32), day=14))
    record(db, run("b", measurement("triton", micro=10.0, identity=tf32), measurement("cublas-tf32", identity=tf32)))
    for arguments in ((), ("show",), ("compare", "--all")):
        out = say(*arguments)[1]
        assert "triton tf32" in out
        assert "cublas-tf32 tf32" not in out


def test_short_ids_are_unique() -> None:
    ids = ("0123456789a", "0123456789b", "fffffffff", "abc")
    assert [short(name, ids) for name in ids] == ["0123456789a", "0123456789b", "ffffffff", "abc"]


def test_one_run(say: Any, db: Path) -> None:
    bad = measurement("lie", 0.1, rejected="above the [red]roofline[/red]")
    record(db, run("r1", measurement(), bad, command="bench \udcff.cu \x1b[2J"))
    code, out, _ = say("show", "r1")
    assert code == 0
    words = " ".join(out.split())
    assert "NVIDIA H200, sm_90, driver 580.65, CUDA 13.0, NVRTC 13.0" in words
    assert "numpy 2.3, torch 2.11" in words
    assert "bench \\udcff.cu \\x1b[2J" in words, "shown, not obeyed"
    assert "cublas 93 % measured" in words
    assert "rejected: lie on 1024x1024x1024 fp32: above the [red]roofline[/red]" in words
    found = json.loads(say("show", "--json")[1])
    assert found["id"] == "r1"
    assert [m["identity"]["name"] for m in found["measurements"]] == ["warp_tile", "lie"]
    record(db, run("r2", day=16))
    assert "No measurements" in say("show")[1]


def test_compare_exits_with_1_on_a_regression(say: Any, db: Path) -> None:
    other = dataclasses.replace(MACHINE, driver="590.1")
    record(db, run("before", measurement(micro=100.0), measurement("naive", 900.0), day=14),
           run("after", measurement(micro=120.0, identity={"config": "BM=[128]"}), measurement("naive", 901.0),
               machine=other))  # fmt: skip
    code, out, _ = say("compare", "before", "after")
    assert code == 1
    words = " ".join(out.split())
    assert words.index("the drivers differ: 580.65 in A, 590.1 in B") < words.index("verdict")
    assert "slower warp_tile 1024x1024x1024 fp32 NN graph cold 100 120 -16.7 %" in words
    assert "configuration BM=64,BN=64 → BM=[128]" in words
    assert "1 slower, 1 same." in words
    assert "naive" not in words
    assert "naive" in say("compare", "--all")[1], "the last two unless told"
    code, out, _ = say("compare", "latest", "latest~1")
    assert code == 0
    assert "faster" in out
    assert say("compare", "--least", "25")[0] == 0
    code, out, _ = say("compare", "--json")
    assert code == 1
    found = json.loads(out)
    assert (found["a"], found["b"], found["regression"], found["counts"]["slower"]) == ("before", "after", True, 1)
    assert found["changes"][0]["speedup"] == pytest.approx(1 / 1.2)
    assert found["changes"][0]["a_seconds"] == pytest.approx(1e-4)


def test_compare_takes_two_runs_or_none(say: Any, db: Path) -> None:
    record(db, run("a", measurement(), day=14), run("b", measurement()))
    code, out, err = say("compare", "a")
    assert (code, out) == (2, "")
    assert "give both: gemmsmith history compare a latest" in err
    assert say("compare")[0] == say("compare", "a", "b")[0] == 0


def test_runs_without_measurements_compare_to_nothing(say: Any, db: Path) -> None:
    record(db, run("a"), run("b"))
    code, out, _ = say("compare", "a", "b")
    assert code == 0
    assert "nothing to compare" in out


@pytest.mark.usefixtures("db")
def test_options_before_a_subcommand_apply(say: Any, tmp_path: Path) -> None:
    record(tmp_path / "other.db", run("r1", measurement()))
    code, out, _ = say("--db", str(tmp_path / "other.db"), "--json", "show")
    assert code == 0
    assert json.loads(out)["id"] == "r1"
    assert say("show", "--db", str(tmp_path / "other.db"))[0] == 0
    assert say("show")[0] == 2, "the usual one is empty"
    assert say("--gpu", "H200", "show")[0] == 2


@pytest.mark.parametrize("command", [(), ("show",), ("compare",), ("export", "--out", "x.csv")])
@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (b"SQLite format 3\0" + b"\xff" * 4080, 3, "is damaged"),
        (b"something else", 2, "is not a results database"),
        (None, 2, "is a folder"),
    ],
)
def test_a_damaged_database_is_not_a_regression(
    content: bytes | None, code: int, says: str, command: tuple[str, ...], say: Any, db: Path
) -> None:
    db.parent.mkdir()
    if content is None:
        db.mkdir()
    else:
        db.write_bytes(content)
    found, out, err = say(*command)
    assert (found, out) == (code, "")
    assert says in " ".join(err.split())
    assert all(len(line) <= 100 or "/" in line for line in err.splitlines())
