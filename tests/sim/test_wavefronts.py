"""How accesses are served: every recorded pattern, properties, and well-known facts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.fills import operands
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.run.device import Launch
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.wave import WARP
from gemmsmith.sim.wavefronts import NOBODY, Copies, copies, sectors, wavefronts

RECORD = Path(__file__).parents[1] / "data" / "access_patterns.json"
LANE = np.arange(WARP)
WIDTHS = (4, 8, 16)
METRICS = {
    "lds requests": "smsp__sass_inst_executed_op_shared_ld.sum",
    "sts requests": "smsp__sass_inst_executed_op_shared_st.sum",
    "copies": "smsp__inst_executed_op_ldgsts.sum",
    "lds wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "sts wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "copy wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    "copy conflicts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    "lds conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "sts conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "ldg requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "stg requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "ldg tag sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "stg tag sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "ldg sectors": "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "stg sectors": "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_st.sum",
    "copy sectors": "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
}
FAMILIES = (
    "to ", "tile of ", "from rows of ", "random ", "zeros, padded", "zeros ", "stride ", "modulo ", "consecutive, ",
)  # fmt: skip


@cache
def recorded() -> dict[tuple[str, int, str], list[dict[str, Any]]]:
    """The record, by kind, width and family of pattern."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert set(record["metrics"]) == set(METRICS.values())
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for pattern in record["patterns"]:
        family = next((f.strip(" ,") for f in FAMILIES if pattern["pattern"].startswith(f)), "others")
        values = dict(zip(record["metrics"], pattern["counts"], strict=True))
        pattern["measured"] = {short: values[name] for short, name in METRICS.items()}
        found.setdefault((pattern["kind"], pattern["width"], family), []).append(pattern)
    return found


def warp(offsets: Any, active: int = WARP) -> np.ndarray[Any, Any]:
    return np.where(active > LANE, np.array(offsets), NOBODY).reshape(1, WARP)


def served_copy(to: Any, start: Any, reads: Any, width: int, active: int = WARP, **form: bool) -> dict[str, int]:
    form = {"bypass": False, "zero_fill": True, **form}
    cost = copies(warp(to, active), warp(start, active), np.array(reads, bool).reshape(1, WARP), width, **form)
    return {name: int(getattr(cost, name)[0]) for name in Copies.__dataclass_fields__}


def expected(pattern: dict[str, Any]) -> dict[str, int]:
    """Every metric of the kernel that recorded a pattern, its own helper accesses included."""
    kind, width, active = pattern["kind"], pattern["width"], pattern["active"]
    at = warp(pattern["offsets"], active)
    counts = dict.fromkeys(METRICS, 0)

    def touch(operation: str, addresses: np.ndarray[Any, Any]) -> None:
        counts[f"{operation} requests"] += 1
        counts[f"{operation} sectors"] += int(sectors(addresses)[0])
        counts[f"{operation} tag sectors"] += int(sectors(addresses)[0])

    def row(size: int) -> np.ndarray[Any, Any]:
        return warp(LANE * size, active)

    touch("ldg", row(4))  # the offsets themselves
    if kind in ("lds", "sts"):
        waves, groups = wavefronts(at, width, load=kind == "lds")
        counts[f"{kind} requests"] += 1
        counts[f"{kind} wavefronts"] += int(waves[0])
        counts[f"{kind} conflicts"] += int(waves[0] - groups[0])
        touch("stg" if kind == "lds" else "ldg", row(width))
        if kind == "sts":
            touch("ldg", warp(0 * LANE, active))  # at[0]
    elif kind in ("ldg", "stg"):
        touch(kind, at)
        touch({"ldg": "stg", "stg": "ldg"}[kind], row(width))
    else:
        touch("ldg", row(4))
        touch("ldg", row(4))
        cost = served_copy(pattern["offsets"], pattern["sources"], np.array(pattern["sizes"]) > 0, width, active,
                           bypass=kind == "cpg")  # fmt: skip
        counts["copies"] = 1
        counts["copy wavefronts"] = cost["wavefronts"]
        counts["copy conflicts"] = cost["conflicts"]
        counts["copy sectors"] = cost["sectors"]
        counts["ldg requests"] += cost["requests"]
        counts["ldg tag sectors"] += cost["tag_sectors"]
    return counts


@pytest.mark.parametrize(("kind", "width", "family"), sorted(recorded()))
def test_recorded_patterns(kind: str, width: int, family: str) -> None:
    """All sixteen metrics of every pattern, exactly."""
    wrong = {}
    for pattern in recorded()[kind, width, family]:
        ours, measured = expected(pattern), pattern["measured"]
        different = {name: (ours[name], measured[name]) for name in METRICS if ours[name] != measured[name]}
        if different:
            wrong[pattern["pattern"]] = different
    assert not wrong


def test_the_recording_is_complete() -> None:
    assert sum(map(len, recorded().values())) > 1100
    assert len(recorded()) >= 60
    assert {kind for kind, _, _ in recorded()} == {"lds", "sts", "ldg", "stg", "cpa", "cpg"}


# -- the same rules written slowly, for one warp ------------------------------------------------------


def slow_copy_wavefronts(to: list[int], start: list[int], reads: list[bool], width: int) -> int:
    def banks(address: int) -> set[int]:
        return {(address // 4 + i) % 32 for i in range(width // 4)}

    total = 0
    for group in np.split(LANE, WARP * width // 128):
        here = [lane for lane in map(int, group) if to[lane] != NOBODY]
        meets = [
            sum(
                bool(banks(to[one]) & banks(to[two]))
                or (reads[one] and reads[two] and bool(banks(start[one]) & banks(start[two])))
                for two in here
            )
            for one in here
        ]
        total += max(meets, default=0)
    return total


def slow_bypass(to: list[int], start: list[int], reads: list[bool]) -> tuple[int, int, int]:
    """(sectors, tag sectors, wavefronts of what arrives)."""
    here = [lane for lane in range(WARP) if to[lane] != NOBODY]
    first = {to[lane]: lane for lane in reversed(here) if reads[lane]}
    last = {to[lane]: lane for lane in here if reads[lane]}
    halves: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for target, lane in {to[lane]: lane for lane in reversed(here)}.items():
        halves.setdefault((target // 32, start[lane] // 32), set()).add((target // 16 % 2, start[lane] // 16 % 2))
    arrivals = {(d // 4, s // 4, (d - s) % 2, frozenset(moved)) for (d, s), moved in halves.items()}
    return (
        len({(target // 32, start[lane] // 32) for target, lane in first.items()}),
        len({(target // 32, start[lane] // 128) for target, lane in last.items()}),
        len(arrivals),
    )


@st.composite
def some_copies(draw: st.DrawFn) -> tuple[int, list[int], list[int], list[bool]]:
    """(width, targets, sources, reads) of one warp; narrow spans make lanes meet, some lanes are inactive."""
    width = draw(st.sampled_from(WIDTHS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    spans = draw(st.tuples(*[st.sampled_from((4, 16, 64, 1024))] * 2))
    to, start = (rng.integers(0, span, WARP) * width for span in spans)
    idle = rng.random(WARP) < draw(st.sampled_from((0, 0.3, 0.9)))
    reads = rng.random(WARP) < draw(st.sampled_from((1, 0.5, 0.1, 0)))
    return width, np.where(idle, NOBODY, to).tolist(), np.where(idle, NOBODY, start).tolist(), reads.tolist()


@given(some_copies())
def test_copies_against_the_slow_form(copy: tuple[int, list[int], list[int], list[bool]]) -> None:
    width, to, start, reads = copy
    reading = [start[i] // 32 for i in LANE if reads[i] and to[i] != NOBODY]
    cost = served_copy(to, start, reads, width)
    assert cost["wavefronts"] == slow_copy_wavefronts(to, start, reads, width)
    assert cost["sectors"] == cost["tag_sectors"] == len(set(reading))
    assert cost["requests"] == bool(reading)
    if width == 16:
        touched, tagged, arrivals = slow_bypass(to, start, reads)
        for zero_fill in (True, False):
            past = served_copy(to, start, reads, 16, bypass=True, zero_fill=zero_fill)
            passing = slow_copy_wavefronts(to, start, [True] * WARP, 16) if zero_fill else 0
            assert (past["sectors"], past["tag_sectors"], past["wavefronts"]) == (touched, tagged, passing + arrivals)
            assert past["conflicts"] == (cost["conflicts"] if zero_fill else 0)
            assert past["requests"] == cost["requests"]


@given(some_copies())
def test_shared_accesses_against_the_slow_form(copy: tuple[int, list[int], list[int], list[bool]]) -> None:
    width, at, _, _ = copy
    total = groups = 0
    for group in np.split(np.array(at), WARP * width // 128):
        words = {int(a) // 4 + i for a in group if a != NOBODY for i in range(width // 4)}
        total += max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0)
        groups += bool(words)
    found = wavefronts(warp(at), width, load=False)
    assert (int(found[0][0]), int(found[1][0])) == (total, groups)
    assert int(sectors(warp(at))[0]) == len({a // 32 for a in at if a != NOBODY})


# -- properties ---------------------------------------------------------------------------------------


def shifted(offsets: list[int], by: int) -> list[int]:
    return [a if a == NOBODY else a + by for a in offsets]


@settings(max_examples=50)
@given(some_copies(), st.integers(0, 40), st.integers(0, 40))
def test_whole_lines_do_not_matter(
    copy: tuple[int, list[int], list[int], list[bool]], to_lines: int, start_lines: int
) -> None:
    width, to, start, reads = copy
    moved = shifted(to, 128 * to_lines), shifted(start, 128 * start_lines)
    for bypass in (False, True)[: 1 + (width == 16)]:
        assert served_copy(to, start, reads, width, bypass=bypass) == served_copy(*moved, reads, width, bypass=bypass)
    for load in (True, False):
        assert wavefronts(warp(to), width, load=load) == wavefronts(warp(moved[0]), width, load=load)
    assert sectors(warp(start)) == sectors(warp(moved[1]))


@settings(max_examples=50)
@given(some_copies(), st.randoms(use_true_random=False))
def test_order_inside_a_group_does_not_matter(copy: tuple[int, list[int], list[int], list[bool]], random: Any) -> None:
    """Except for wide loads, where neighbours that agree make groups larger."""
    width, to, start, reads = copy
    order: list[int] = []
    for group in np.split(LANE, WARP * width // 128):
        mixed = group.tolist()
        random.shuffle(mixed)
        order += mixed
    new_to, new_start, new_reads = (np.array(x)[order] for x in (to, start, reads))
    assert served_copy(new_to, new_start, new_reads, width) == served_copy(to, start, reads, width)
    for load in (True, False) if width == 4 else (False,):
        mixed_up, plain = (wavefronts(warp(x), width, load=load)[0] for x in (new_to, to))
        assert mixed_up == plain
    assert sectors(warp(new_start)) == sectors(warp(start))


@settings(max_examples=50)
@given(some_copies())
def test_bounds(copy: tuple[int, list[int], list[int], list[bool]]) -> None:
    width, to, start, reads = copy
    active = sum(a != NOBODY for a in to)
    loads, _ = wavefronts(warp(to), width, load=True)
    stores, groups = wavefronts(warp(to), width, load=False)
    cost = served_copy(to, start, reads, width)
    assert groups <= stores
    assert loads <= stores <= cost["wavefronts"] <= active  # a load may merge groups; a copy merges nothing
    assert cost["wavefronts"] - cost["conflicts"] == groups


@pytest.mark.parametrize("width", WIDTHS)
def test_many_warps_cost_the_sum_of_each(width: int) -> None:
    rng = np.random.default_rng(width)
    to, start = (rng.integers(0, 64, (50, WARP)) * width for _ in range(2))
    idle = rng.random(to.shape) < 0.2
    to, start, reads = np.where(idle, NOBODY, to), np.where(idle, NOBODY, start), rng.random(to.shape) < 0.6
    for bypass in (False, True)[: 1 + (width == 16)]:
        together = copies(to, start, reads, width, bypass=bypass, zero_fill=True)
        alone = [served_copy(*row, width, bypass=bypass) for row in zip(to, start, reads, strict=True)]
        for name in Copies.__dataclass_fields__:
            assert getattr(together, name).tolist() == [cost[name] for cost in alone]
    for load in (True, False):
        alone_waves = [int(wavefronts(row.reshape(1, -1), width, load=load)[0][0]) for row in to]
        assert wavefronts(to, width, load=load)[0].tolist() == alone_waves
    assert sectors(start).tolist() == [int(sectors(row.reshape(1, -1))[0]) for row in start]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("lane", [0, 13, 31])
def test_one_lane(width: int, lane: int) -> None:
    at = np.where(lane == LANE, 48, NOBODY)
    for load in (True, False):
        assert [int(x[0]) for x in wavefronts(warp(at), width, load=load)] == [1, 1]
    assert sectors(warp(at)) == 1
    one = {"requests": 1, "tag_sectors": 1, "sectors": 1, "wavefronts": 1, "conflicts": 0}
    assert served_copy(at, at, LANE >= 0, width) == one
    if width == 16:
        assert served_copy(at, at, LANE >= 0, 16, bypass=True) == {**one, "wavefronts": 2}
        assert served_copy(at, at, LANE >= 0, 16, bypass=True, zero_fill=False) == one


@pytest.mark.parametrize("width", WIDTHS)
def test_no_active_lane(width: int) -> None:
    at = np.full(WARP, NOBODY)
    assert [int(x[0]) for x in wavefronts(warp(at), width, load=True)] == [0, 0]
    assert sectors(warp(at)) == 0
    assert set(served_copy(at, at, LANE >= 0, width).values()) == {0}


# -- well-known facts -----------------------------------------------------------------


def conflicts(offsets: Any, width: int = 4, load: bool = True) -> int:
    waves, groups = wavefronts(warp(offsets), width, load=load)
    return int(waves[0] - groups[0])


@pytest.mark.parametrize("load", [True, False], ids=["load", "store"])
@pytest.mark.parametrize("stride", range(1, 34))
def test_a_stride_costs_its_common_factor_with_the_banks(load: bool, stride: int) -> None:
    waves, _ = wavefronts(warp(LANE * stride * 4), 4, load=load)
    assert waves == np.gcd(stride, 32)


def test_known_layouts() -> None:
    row, column = LANE, LANE * 32
    assert conflicts(row * 4) == 0
    assert conflicts(0 * LANE) == 0  # one word for all: a broadcast
    assert conflicts(column * 4) == 31  # down a column of a 32 x 32 tile
    assert conflicts(LANE * 33 * 4) == 0  # padding removes it,
    assert conflicts((column + (LANE ^ 5)) * 4) == 0  # and so does a swizzle
    assert conflicts(row * 8, 8) == conflicts(row * 16, 16) == 0  # wide, but two or four groups
    assert int(wavefronts(warp(row * 16), 16, load=True)[0][0]) == 4
    assert conflicts(LANE // 2 * 16, 16) == 0  # neighbours agree: groups of sixteen lanes
    assert int(wavefronts(warp(LANE // 2 * 16), 16, load=True)[0][0]) == 2
    assert int(wavefronts(warp(LANE // 2 * 16), 16, load=False)[0][0]) == 4


@pytest.mark.parametrize(
    ("offsets", "count"),
    [(LANE * 4, 4), (LANE * 4 + 4, 5), (LANE * 8, 8), (LANE * 16, 16), (LANE * 32, 32), (LANE * 2048, 32),
     (0 * LANE, 1), (LANE // 16 * 4096 + LANE % 16 * 4, 4)],
    ids=["coalesced", "off by one", "64 bit", "128 bit", "a sector each", "a column", "one word", "half a row each"],
)  # fmt: skip
def test_known_sectors(offsets: Any, count: int) -> None:
    assert sectors(warp(offsets)) == count


# -- the copies of rung async_copy --------------------------------------------------------------------


def test_copies_past_l1_without_zero_filling() -> None:
    """Rung async_copy at 512 cubed and 1024 cubed as measured on an H200: half its copies are A, half B.

    A warp copies 8 rows of 64 bytes of A to rows of 80 bytes, or 2 rows of 256 bytes of B. The recorded patterns are
    all of the zero-filling form; these totals are the only measurement of the other form.
    """
    a = served_copy(LANE // 4 * 80 + LANE % 4 * 16, LANE // 4 * 2048 + LANE % 4 * 16, LANE >= 0, 16,
                    bypass=True, zero_fill=False)  # fmt: skip
    b = served_copy(LANE * 16, LANE // 16 * 2048 + LANE % 16 * 16, LANE >= 0, 16, bypass=True, zero_fill=False)
    total = {name: 16384 * (a[name] + b[name]) for name in a}
    measured = {"requests": 32768, "tag_sectors": 589824, "sectors": 655360, "wavefronts": 311296, "conflicts": 0}
    assert total == measured


def test_a_warp_that_only_fills_makes_no_request() -> None:
    """As measured: 63,392 requests for 64,512 copies at 509 x 391 x 277. The zeros are still written."""
    cost = served_copy(LANE * 4, LANE * 4, LANE < 0, 4)
    assert cost == {"requests": 0, "tag_sectors": 0, "sectors": 0, "wavefronts": 1, "conflicts": 0}


def counted(m: int, n: int, k: int) -> dict[str, int]:
    """What the simulator counts for the copies of rung async_copy."""
    spec, problem = rung_named("async_copy"), Problem(m, n, k)
    device = SimDevice("sm_90", count=True)
    data = operands(problem, "normal", seed=0)
    addresses = [device.allocate(x.nbytes) for x in (data.a, data.b, data.c)]
    launch = Launch(spec.geometry(problem, spec.config()), spec.signature.pack(problem, *addresses))
    compiled = compile_kernel(spec, spec.config(), dtype=problem.dtype, arch="sm_90")
    device.launch(device.load(compiled), launch)
    assert device.counters is not None
    shared, counters = list(device.counters.copies.values()), device.counters
    ours = [counters.by_position[key] for key in counters.copies]
    return {
        "copies": sum(c.requests for c in shared), "requests": sum(c.requests for c in ours),
        "tag_sectors": sum(c.sectors for c in ours), "sectors": sum(c.sectors for c in shared),
        "wavefronts": sum(c.wavefronts for c in shared), "conflicts": sum(c.wavefronts - c.groups for c in shared),
    }  # fmt: skip


def test_the_simulator_counts_copies_by_these_rules() -> None:
    """One block, two k-tiles: a 1,024th of what was measured at 512 cubed."""
    measured = {"copies": 32768, "requests": 32768, "tag_sectors": 589824, "sectors": 655360, "wavefronts": 311296,
                "conflicts": 0}  # fmt: skip
    assert counted(64, 64, 32) == {name: value // 1024 for name, value in measured.items()}


def test_remembered_patterns_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = counted(70, 50, 37)
    assert remembered["requests"] < remembered["copies"]
    recall = Counters._remembered

    def forgetful(self: Counters, *arguments: Any) -> tuple[int, ...]:
        self._patterns.clear()
        return recall(self, *arguments)

    monkeypatch.setattr(Counters, "_remembered", forgetful)
    assert counted(70, 50, 37) == remembered
