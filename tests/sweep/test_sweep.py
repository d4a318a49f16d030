"""gemmsmith sweep: grids of points and why some are illegal, the named experiments, counts, records and pictures."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.cli.commands import sweep as sweep_command
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.main import run_command
from gemmsmith.cli.render.sweep_tables import print_sweep
from gemmsmith.errors import ConfigError, UsageError
from gemmsmith.explain.occupancy import curve
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.report.sweep_file import read_sweeps
from gemmsmith.run.contender import Identity
from gemmsmith.shapes import Shape, parse_shapes
from gemmsmith.store.database import Results
from gemmsmith.store.results import Measurement, Ratio, Timing
from gemmsmith.sweep import measure
from gemmsmith.sweep.axes import parse_axis
from gemmsmith.sweep.counting import small_problem
from gemmsmith.sweep.experiments import EXPERIMENTS, experiment_named
from gemmsmith.sweep.families import FileFamily, RungFamily, Variant
from gemmsmith.sweep.grid import Point, grid
from gemmsmith.sweep.quantities import QUANTITIES, columns, telling
from gemmsmith.sweep.results import Outcome, Sweep
from gemmsmith.sweep.timing import Entrant, Listener, time_points
from gemmsmith.sweep.workbench import Workbench, resources
from gemmsmith.userfile.user_kernel import UserOptions

CUBE = ((64, 64, 64),)
# Right for TILE = 8 and 16 and whole tiles; for 4 it does not compile, for 12 it forgets to multiply by B.
FILE = """
#ifndef TILE
#define TILE 16
#endif
#if TILE == 4
#error tiles of 4 are too small
#endif
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float tile[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        tile[threadIdx.y][threadIdx.x] = A[row * K + k + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += tile[threadIdx.y][i] * (TILE == 12 ? 1.0f : B[(k + i) * N + col]);
        __syncthreads();
    }
    C[row * N + col] = sum;
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.cu"
    path.write_text(FILE)
    return path


def rung(name: str, fixed: str = "", preset: str = "") -> RungFamily:
    values = tuple((k, v) for k, _, v in (part.partition("=") for part in fixed.split(",") if part))
    return RungFamily(rung_named(name), values, preset)


def points(family: RungFamily | FileFamily, *vary: str, shapes: Sequence[Shape] = CUBE) -> tuple[Point, ...]:
    return grid(family, [parse_axis(text) for text in vary], shapes)


def bench(gpu: str = "H200") -> Workbench:
    chosen = gpu_named(gpu)
    return Workbench(chosen, f"sm_{chosen.arch}", Compiler())


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    got = run_command(["sweep", *arguments])
    seen = capsys.readouterr()
    assert got == code, seen
    return str(seen.out if code in (0, 1) else seen.out + seen.err)


# --- axes and grids


def test_an_axis_keeps_its_order_and_drops_repetitions() -> None:
    assert parse_axis("BK=32,8,32,16").values == (("32",), ("8",), ("16",))


def test_names_that_vary_together() -> None:
    axis = parse_axis("TM,TN=4x4, 8x4")
    assert axis.names == ("TM", "TN")
    assert axis.values == (("4", "4"), ("8", "4"))
    assert axis.title == "TM×TN"
    assert axis.label((("BK", "8"), ("TM", "8"), ("TN", "4"))) == "8×4"


@pytest.mark.parametrize("text", ["BK", "BK=", "=8", "BK=8,,16", "TM,TN=4", "TM,TN=4x4x4", "TM,TN=4x", "TM,TM=4x4",
                                  "8=8", "B K=8", "TM,=4x4"])  # fmt: skip
def test_what_is_not_an_axis_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_axis(text)


def test_every_combination_with_the_last_axis_fastest() -> None:
    found = points(rung("padded"), "BK=8,16", "PAD=0,4")
    assert [p.label for p in found] == ["BK=8 PAD=0", "BK=8 PAD=4", "BK=16 PAD=0", "BK=16 PAD=4"]
    assert all(p.variant is not None and dict(p.settings)["PAD"] == str(p.variant.config["PAD"]) for p in found)


def test_an_illegal_point_stays_with_every_reason() -> None:
    legal, illegal = points(rung("rectangular", "BM=128,BN=128,BK=32,MIN_BLOCKS=1"), "TM,TN=8x8,8x128")
    assert legal.variant is not None
    assert legal.reasons == ()
    assert illegal.variant is None
    assert len(illegal.reasons) == 2
    assert any("128·128/(8·128) = 16 threads" in reason for reason in illegal.reasons)
    assert any("1024 accumulators" in reason for reason in illegal.reasons)


def test_fixed_values_and_presets_hold() -> None:
    (point,) = points(rung("padded", "PAD=8", "128x128x16-8x8"), "TM=4")
    assert point.variant is not None
    assert [point.variant.config[name] for name in ("BK", "PAD", "TM")] == [16, 8, 4]


@pytest.mark.parametrize(("vary", "message"), [
    (("NO=1",), "no parameter NO"), (("BK=8", "BK=16"), "varied twice"), (("BK=x",), "BK must be an integer, not 'x'"),
    (("SIZE=64", "M=64"), "cannot vary too"), (("SIZE=0",), "not an extent"), (("SIZE=-4",), "not an extent"),
    (("WAVES=1",), "needs a GPU whose occupancy is known"), (("registers=x",), "not an integer"),
    (("dtype=fp99",), "unknown data type"),
])  # fmt: skip
def test_a_sweep_that_makes_no_sense_is_refused_as_a_whole(vary: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        points(rung("padded"), *vary)


def test_what_is_held_cannot_vary(file: Path) -> None:
    for family, vary in (
        (rung("padded", "PAD=8"), "PAD=0"),
        (FileFamily(file, UserOptions(defines=(("TILE", "8"),))), "TILE=8"),
    ):
        with pytest.raises(UsageError, match="both fixed and varied"):
            points(family, vary)


def test_sizes_and_shapes() -> None:
    found = points(rung("coalesced"), "SIZE=32,64")
    assert [str(p.problem) for p in found] == ["32x32x32 fp32", "64x64x64 fp32"]
    (point,) = points(rung("coalesced"), "M=32", shapes=((8, 16, 24),))
    assert str(point.problem) == "32x16x24 fp32"
    both = points(rung("coalesced"), "TILE=8,16", shapes=parse_shapes("32,8x16x24"))
    assert [p.label for p in both][::2] == ["shape=32x32x32 TILE=8", "shape=8x16x24 TILE=8"]
    with pytest.raises(UsageError, match="both set sizes"):
        points(rung("coalesced"), "K=8", shapes=parse_shapes("32,64"))


def test_types_that_a_rung_does_not_take_are_illegal() -> None:
    good, bad = points(rung("warp_tile_mixed"), "dtype=bf16,fp32")
    assert str(good.problem) == "64x64x64 bf16"
    assert "takes fp16, bf16" in bad.reasons[0]


# --- a user's file


def test_a_files_macros(file: Path) -> None:
    eight, too_large = points(FileFamily(file, UserOptions(defines=(("OTHER", "1"),))), "TILE=8,64")
    assert eight.variant is not None
    assert eight.variant.text == "OTHER=1,TILE=8"
    assert eight.variant.spec.geometry(Problem(64, 64, 64), eight.variant.config).block == (8, 8, 1)
    assert "64 x 64 threads" in too_large.reasons[0]


@pytest.mark.parametrize(("declaration", "message"), [
    ("#define TILE 16", "sets TILE itself"), ("constexpr int TILE = 16;", "sets TILE itself"),
    ("const int OTHER = 1, TILE = 16;", "sets TILE itself"), ("#define T 16", "has no macro TILE"),
    ("#if !defined(TILE)\n#define TILE 16\n#endif", ""), ("template <int TILE>", ""),
])  # fmt: skip
def test_a_macro_that_changes_nothing_is_refused(tmp_path: Path, declaration: str, message: str) -> None:
    text = f"{declaration}\n__global__ void k(float* A, float* B, float* C, int M, int N, int K) {{}}\n"
    if not message:
        text += "// TILE\n"
    path = tmp_path / "k.cu"
    path.write_text(text)
    family = FileFamily(path, UserOptions())
    if message:
        with pytest.raises(UsageError, match=message):
            family.check(["TILE"])
    else:
        family.check(["TILE"])


def test_what_a_point_is_verified_on(file: Path) -> None:
    """A rung on ragged tiles; a file, which may take whole tiles only, on a shape as even as the sweep's."""
    spec = rung_named("padded")
    small = small_problem(Variant(spec, spec.config(), ""), Problem(4096, 4096, 4096))
    assert (small.m % 128, small.n % 128, small.k % 8) == (1, 127, 1)
    (point,) = points(FileFamily(file, UserOptions()), "TILE=16")
    assert point.variant is not None
    even = small_problem(point.variant, Problem(4096, 4096, 4096))
    assert (even.m % 16, even.n % 16, even.k % 64) == (0, 0, 0)
    assert max(even.m, even.n, even.k) <= 256
    odd = small_problem(point.variant, Problem(4099, 4096, 10))
    assert (odd.m % 16, odd.n % 16, odd.k) == (3, 0, 10)


# --- the worklogs' experiments

ILLEGAL = {"thread-tile": ["TM=8 TN=128"], "registers": ["MIN_BLOCKS=8"]}


@pytest.mark.parametrize("name", [e.name for e in EXPERIMENTS])
def test_an_experiments_points_are_legal_but_for_those_known(name: str) -> None:
    experiment = experiment_named(name)
    family = rung(experiment.kernel, experiment.fixed)
    shapes = parse_shapes(experiment.shape or "4096")
    found = grid(family, [parse_axis(t) for t in experiment.vary], shapes, "", bench().wave_shape)
    assert len(found) >= 3
    assert [p.label for p in found if p.reasons] == ILLEGAL.get(name, [])
    assert experiment.shows in QUANTITIES


@pytest.mark.parametrize(("name", "vary"), [
    ("thread-tile", "TM,TN=4x4,8x4,8x8,16x4,16x8,4x32,8x64,8x128,16x16"), ("unroll", "UNROLL=1,2,4,8,16"),
    ("padding", "PAD=0,1,4,8"), ("bk", "BK=8,16,32"), ("load-width", "VEC=1,2,4"),
    ("sizes", "SIZE=64,128,256,512,1024,2048,4096,8192,16384"),
])  # fmt: skip
def test_the_worklogs_values_are_all_there(name: str, vary: str) -> None:
    assert vary in experiment_named(name).vary


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(UsageError, match="no experiment called 'paddin'") as caught:
        experiment_named("paddin")
    assert "did you mean padding?" in caught.value.hint


@pytest.mark.parametrize("gpu", ["H200", "RTX 3050"])
def test_waves_are_full_where_asked_and_never_rounded_away(gpu: str) -> None:
    here = bench(gpu)
    spec = rung_named("coalesced")
    variant = Variant(spec, spec.config(), "")
    grids = {}
    for wanted in (0.95, 1.0, 1.05, 2.0):
        m, n, k = here.wave_shape(variant, wanted, (64, 64, 48))
        assert (m % 32, n % 32, k) == (0, 0, 48)
        grids[wanted] = spec.geometry(Problem(m, n, k), variant.config).blocks
    capacity = here.gpu.sms * here.occupancy(here.compiled(variant, Problem(64, 64, 64)), 1024, 0).blocks_per_sm
    assert grids[0.95] < capacity == grids[1.0] < grids[1.05] < grids[2.0] == 2 * capacity


# --- what is shown


def test_the_telling_quantity() -> None:
    assert telling(["BK", "PAD"], "simulated") == "store_conflicts"
    assert telling(["TM"], "simulated") == "instructions_per_ffma"
    assert telling(["PAD"], "measured") == "tflops"
    assert telling(["smem"], "predicted") == "occupancy"


@pytest.mark.parametrize("origin", ["simulated", "measured", "predicted"])
def test_the_main_quantity_is_the_last_column_and_there_once(origin: str) -> None:
    for name in QUANTITIES:
        shown = columns(name, origin)
        assert shown[-1] == name
        assert len(set(shown)) == len(shown)
        assert set(shown) <= set(QUANTITIES)


def made(points_: Sequence[Point], *found: tuple[str, dict[str, float]], main: str = "spill_bytes") -> Sweep:
    """A sweep of which nothing was run: a state and counters for each point."""
    problem = Problem(64, 64, 64)
    outcomes = tuple(
        Outcome(point, state, () if state == "ok" else (f"{state}, because",),
                Measurement(Identity("k", "rung"), problem, "simulated", True, counters=tuple(counters.items()))
                if counters else None)
        for point, (state, counters) in zip(points_, found, strict=True)
    )  # fmt: skip
    names = [name for name, _ in points_[0].settings]
    axes = [parse_axis(f"{n}={','.join(dict.fromkeys(dict(p.settings)[n] for p in points_))}") for n in names]
    return Sweep("k", "", tuple(axes), outcomes, "simulated", "simulator", "H200", main, "Note.")


def test_a_table_shows_spills_states_and_what_stays_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    cells: list[tuple[str, dict[str, float]]] = [
             ("ok", {"registers": 128, "smem_bytes": 8192, "spill_bytes": 0}),
             ("ok", {"registers": 64, "smem_bytes": 8192, "spill_bytes": 816}), ("illegal", {}), ("failed", {}),
             ("wrong", {"registers": 40, "smem_bytes": 8192, "spill_bytes": 9999})]  # fmt: skip
    print_sweep(made(points(rung("vectorized"), "MIN_BLOCKS=2,4,5,6,8"), *cells))
    text = capsys.readouterr().out
    assert all(len(line) <= 100 for line in text.splitlines())
    rows = {words[0]: words[1:] for line in text.splitlines() if (words := line.split()) and words[0] in "24568"}
    assert rows["2"] == ["128", "0", "B"]
    assert rows["4"] == ["64", "816", "B", "████████"]  # the wrong point's bytes do not set the scale
    assert rows["5"] == ["–", "–", "illegal"]
    assert rows["6"] == ["–", "–", "failed"]
    assert rows["8"][-1] == "WRONG"
    assert "The same at every point: shared 8.0 KB." in text
    assert "illegal MIN_BLOCKS=5: illegal, because" in text
    assert "wrong MIN_BLOCKS=8: wrong, because" in text


def test_two_parameters_make_a_grid(capsys: pytest.CaptureFixture[str]) -> None:
    four = points(rung("coalesced"), "TILE=8,16", "N=32,64")
    values: list[tuple[str, dict[str, float]]] = [("ok", {"spill_bytes": value}) for value in (1, 2, 3)]
    print_sweep(made(four, *values, ("wrong", {"spill_bytes": 4})))
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if "TILE \\ N" in line)
    assert lines[at].split()[-2:] == ["32", "64"]
    assert [line.split() for line in lines[at + 1 : at + 3]] == [["8", "1", "B", "2", "B"], ["16", "3", "B", "–"]]


# --- on the simulator


def test_what_a_kernel_uses() -> None:
    here = bench()
    spec = rung_named("coalesced")
    compiled = here.compiled(Variant(spec, spec.config(), ""), Problem(64, 64, 64))
    spilling = replace(compiled, resources=replace(compiled.resources, registers=255, spill_stores=4, spill_loads=8,
                                                   static_smem=1000, barriers=1))  # fmt: skip
    held = here.occupancy(spilling, 128, 24)
    found = dict(resources(spilling, held, 330, here.gpu))
    assert found == {"registers": 255, "smem_bytes": 1024, "spill_bytes": 12, "threads": 128, "blocks_per_sm": 2,
                     "occupancy": 0.125, "grid_blocks": 330, "waves": 1.25, "wave_efficiency": 0.625}  # fmt: skip


def test_padding_parts_the_banks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture, database = tmp_path / "sweep.svg", tmp_path / "results.db"
    text = run(capsys, "padded", "--vary", "PAD=0,4,5", "--device", "sim", "--shapes", "256", "--json", "--plot",
               str(picture), "--db", str(database))  # fmt: skip
    facts = json.loads(text)
    unpadded, padded, illegal = facts["points"]
    assert facts["origin"] == "simulated"
    assert unpadded["values"]["store_conflicts"] == pytest.approx(1 / 3)
    assert padded["values"]["store_conflicts"] == 0
    assert padded["values"]["smem_bytes"] == unpadded["values"]["smem_bytes"] + 8 * 4 * 4
    assert padded["measurement"]["verified"] is True
    assert padded["values"]["occupancy"] == 0.25
    assert padded["values"]["seconds"] is None
    assert (illegal["state"], illegal["measurement"]) == ("illegal", None)
    assert illegal["reasons"] == ["PAD=5 is not one of 0, 1, 4, 8"]
    drawn = ElementTree.parse(picture)
    words = " ".join("".join(node.itertext()) for node in drawn.iter() if node.tag.endswith("text"))
    assert "padded: PAD, simulated" in words
    assert "illegal" in words
    with Results.open(database, read_only=True) as results:
        (kept,) = results.runs()
    assert [m.identity.config.split("PAD=")[1][0] for m in kept.measurements] == ["0", "4"]
    assert {m.origin for m in kept.measurements} == {"simulated"}
    assert kept.measurements[1].counter("store_conflicts") == 0
    assert kept.machine.gpu == ""
    assert len({m.identity.digest for m in kept.measurements}) == 2


def test_points_of_a_file_that_are_wrong_or_do_not_compile_are_results(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    text = run(capsys, str(file), "--vary", "TILE=4,8,12", "--csv", "--device", "sim", "--no-db", "--shapes", "96",
               code=1)  # fmt: skip
    rows = {row["set_TILE"]: row for row in csv.DictReader(io.StringIO(text))}
    assert {tile: row["state"] for tile, row in rows.items()} == {"4": "failed", "8": "ok", "12": "wrong"}
    assert "tiles of 4 are too small" in rows["4"]["reasons"]
    assert "wrong" in rows["12"]["reasons"]
    assert "-DTILE=12" in rows["12"]["reasons"]
    assert rows["12"]["sectors_per_kffma"] == ""
    assert float(rows["8"]["barriers_per_kffma"]) == 250  # two for every eight steps of k


def test_where_nothing_compiles_the_sweep_has_failed(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    text = run(capsys, str(file), "--vary", "TILE=4", "--device", "sim", "--no-db", code=1)
    assert "failed TILE=4: " in text


def test_occupancy_alone_is_predicted_and_not_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    database = tmp_path / "none.db"
    text = run(capsys, "register_block", "--vary", "registers=32,64,255,300", "--json", "--db", str(database))
    facts = json.loads(text)
    assert facts["origin"] == "predicted"
    here = bench()
    used = here.compiled(Variant(rung_named("register_block"), rung_named("register_block").config(), ""),
                         Problem(64, 64, 64)).resources  # fmt: skip
    expected = curve(here.gpu, "registers", (32, 64, 255, 300), threads=256, registers=used.registers,
                     static_smem=used.static_smem, barriers=used.barriers)  # fmt: skip
    assert [p["values"]["occupancy"] for p in facts["points"]] == [e.occupancy.fraction for e in expected]
    assert facts["points"][3]["limited_by"] == "registers: no block fits"
    assert not database.exists()


def test_shared_memory_set_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "register_block", "--vary", "smem=1024,114688,232448", "--json", "--gpu", "H200")
    values = [p["values"] for p in json.loads(text)["points"]]
    assert [v["smem_bytes"] for v in values] == [1024, 114688, 232448]
    assert [v["blocks_per_sm"] for v in values][1:] == [2, 1]


# --- wrong use

ONE = ("naive", "--vary", "TILE=8")
WRONG = [
    ((), "say what to sweep"),
    (("naive",), "say what to sweep"),
    (("naive", "--vary", "FOO=1"), "it can vary TILE, SIZE"),
    (("naive", "--vary", "TILE=9,12"), "TILE=9 is not one of 8, 16, 32"),
    (("nave", "--vary", "TILE=8"), "did you mean naive"),
    (("naive", "--vary", "TILE=8,16", "--vary", "SIZE=1,2,3", "--max-points", "5"), "2 · 3 = 6 points are more than 5"),
    (("naive", "--config", "FOO=1", "--vary", "TILE=8"), "no parameter FOO"),
    (("no.cu", "--vary", "TILE=8"), "no file no.cu"),
    (("naive", "--experiment", "bk"), "names its kernel"),
    (("--experiment", "none"), "the experiments: thread-tile"),
    ((*ONE, "--device", "tpu"), "unknown device"),
    ((*ONE, "--json", "--csv"), "one of --json and --csv"),
    ((*ONE, "--show", "speed"), "no quantity called 'speed'"),
    ((*ONE, "--device", "sim", "--against", "cublas"), "--against needs a GPU"),
    ((*ONE, "--plot", "x.png"), "not an SVG"),
    ((*ONE, "--plot", "no/x.svg"), "no folder"),
    ((*ONE, "--save", "x.txt"), "not a JSON file"),
    ((*ONE, "--save", "no/x.json"), "no folder"),
    ((*ONE, "--block", "8"), "is a rung"),
    ((*ONE, "--shapes", "0x1x1"), "empty matrix"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(a) or "nothing" for a, _ in WRONG])
def test_wrong_use_ends_with_2_and_a_message(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    device = () if "--device" in arguments else ("--device", "sim")
    assert message in run(capsys, *arguments, *device, "--no-db", code=2)


def test_the_list_of_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--list")
    assert all(e.name in text for e in EXPERIMENTS)
    listed = json.loads(run(capsys, "--list", "--json"))["experiments"]
    assert [e["name"] for e in listed] == [e.name for e in EXPERIMENTS]


# --- on a GPU, with a measurement that is not one


def measurement(
    name: str, problem: Problem, seconds: float = 1e-3, rejected: str = "", kind: str = "rung"
) -> Measurement:
    timing = Timing("graph", "cold", seconds, seconds, seconds, 0.01, 9, 1, True)
    return Measurement(Identity(name, kind), problem, "measured", True, rejected, timings=(timing,),
                       ratios=(Ratio("cublas", 0.5, 0.4, 0.6),))  # fmt: skip


def test_points_of_a_shape_take_turns_with_the_baselines() -> None:
    found = points(rung("coalesced"), "SIZE=32,64", "TILE=8,9,16")
    asked: list[tuple[list[str], str]] = []

    def measure(entrants: Sequence[Entrant], problem: Problem, note: Listener) -> list[Measurement]:
        asked.append(([e.label for e in entrants], str(problem)))
        note("the clocks are not known")
        return [measurement("cublas", problem, kind="baseline"), *(measurement(e.label, problem) for e in entrants)]

    refused, *shapes = time_points(found, bench(), measure)
    assert [(at, outcome.state) for at, outcome in refused.outcomes] == [(1, "illegal"), (4, "illegal")]
    assert asked == [
        (["coalesced SIZE=32 TILE=8", "coalesced SIZE=32 TILE=16"], "32x32x32 fp32"),
        (["coalesced SIZE=64 TILE=8", "coalesced SIZE=64 TILE=16"], "64x64x64 fp32"),
    ]
    assert [[at for at, _ in turn.outcomes] for turn in shapes] == [[0, 2], [3, 5]]
    assert [m.identity.name for m in shapes[0].baselines] == ["cublas"]
    assert shapes[0].remarks == ("the clocks are not known",)
    taken = shapes[1].outcomes[1][1].measurement
    assert taken is not None
    assert (taken.identity.name, taken.identity.config) == ("coalesced", "TILE=16")
    assert taken.counter("registers") > 0
    assert taken.counter("threads") == 256
    assert taken.ratio("cublas") == 0.5


def outcomes_of(family: RungFamily | FileFamily, vary: str, answer: Any) -> list[Outcome]:
    return [outcome for turn in time_points(points(family, vary), bench(), answer) for _, outcome in turn.outcomes]


def test_a_point_that_is_rejected_or_skipped_on_the_gpu() -> None:
    def measure(entrants: Sequence[Entrant], problem: Problem, note: Listener) -> list[Measurement]:
        note(f"{problem}: {entrants[1].label} skipped: it is too large")
        return [measurement(entrants[0].label, problem, rejected="above the roofline")]

    wrong, skipped = outcomes_of(rung("coalesced"), "TILE=8,16", measure)
    assert (wrong.state, wrong.reasons) == ("wrong", ("above the roofline",))
    assert skipped.state == "failed"
    assert "it is too large" in skipped.reasons[0]


def test_a_point_that_does_not_compile_does_not_stop_the_others(file: Path) -> None:
    def measure(entrants: Sequence[Entrant], problem: Problem, _: Listener) -> list[Measurement]:
        assert [e.label for e in entrants] == ["mine.cu TILE=8"]
        return [measurement(e.label, problem, kind="file") for e in entrants]

    found = {o.point.label: o for o in outcomes_of(FileFamily(file, UserOptions()), "TILE=4,8", measure)}
    assert found["TILE=4"].state == "failed"
    assert "tiles of 4" in found["TILE=4"].reasons[-1]
    good = found["TILE=8"].measurement
    assert good is not None
    assert (good.identity.name, good.identity.config) == ("mine.cu", "TILE=8")


def test_a_sweep_on_a_gpu_from_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The order of the sweep is kept although shapes are measured together; times, TFLOPS and ratios are shown."""
    device = SimpleNamespace(name="NVIDIA H200", sms=132, arch="sm_90")
    speeds = {"TILE=8": 4e-6, "TILE=16": 2e-6}

    def timed(entrants: Sequence[Entrant], problem: Problem, note: Listener) -> list[Measurement]:
        note("cublas is fine")
        return [measurement(e.label, problem, speeds[e.label.split()[-1]]) for e in entrants]

    monkeypatch.setattr(sweep_command, "cuda_device", lambda: device)
    monkeypatch.setattr(measure, "gpu_measure", lambda *_: timed)
    arguments = ("coalesced", "--vary", "N=32,64", "--vary", "TILE=8,9,16", "--device", "gpu", "--against", "cublas",
                 "--shapes", "64", "--no-db")  # fmt: skip
    facts = json.loads(run(capsys, *arguments, "--json"))
    assert [p["state"] for p in facts["points"]] == ["ok", "illegal", "ok"] * 2
    assert [p["values"]["seconds"] for p in facts["points"]] == [4e-6, None, 2e-6] * 2
    assert facts["origin"] == "measured"
    text = run(capsys, *arguments, "--save", str(tmp_path / "kept.json"))
    (kept,) = read_sweeps(tmp_path / "kept.json")
    assert (kept.origin, kept.where, kept.parameters) == ("measured", "NVIDIA H200", ("N", "TILE"))
    assert [(p.values, bool(p.illegal)) for p in kept.points[:3]] == [
        (("32", "8"), False), (("32", "9"), True), (("32", "16"), False)]  # fmt: skip
    assert kept.points[2].value == 2 * kept.points[0].value > 0
    assert "sweep coalesced --vary N=32,64" in kept.command
    assert all(len(line) <= 100 for line in text.splitlines())
    assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["of", "TFLOPS"]
    assert "2.0 µs" in text
    assert "50.0%" in text
    assert "note: cublas is fine" in text
    assert "measured (NVIDIA H200)" in text


def test_a_value_may_be_varied_by_its_name_and_an_old_name_is_refused_with_the_new_one() -> None:
    found = points(rung("wgmma_persistent"), "STORE_MODE=direct,tma,1")
    assert [point.variant.config["STORE_MODE"] for point in found if point.variant is not None] == [0, 2, 1]
    with pytest.raises(ConfigError, match="no parameter TMA_STORE: it was renamed\nwrite STORE_MODE and STORE_BOXES"):
        points(rung("wgmma_persistent"), "TMA_STORE=0,1")
