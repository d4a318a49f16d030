"""Timelines: statistics, mixed rows, names, the readers of three tools, and the trace file."""

from __future__ import annotations

import gzip
import itertools
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from timeline_sample import DATA, FILL, RUN, ordered

from gemmsmith.cli.commands.timeline import split_words
from gemmsmith.cli.render.timeline_tables import label
from gemmsmith.errors import LaunchError, UsageError
from gemmsmith.trace.kernel_names import api_name, demangled, short_name
from gemmsmith.trace.mixed_rows import mixed_rows
from gemmsmith.trace.timeline import API, COPY, KERNEL, SET, Event, Recording, Table, covered, tables, totals
from gemmsmith.trace.tools.copy_names import copy_name
from gemmsmith.trace.tools.events_file import read_events, write_events
from gemmsmith.trace.tools.nsys_tool import read_nsys_database
from gemmsmith.trace.tools.target import Target, target_of
from gemmsmith.trace.tools.torch_tool import read_torch_trace
from gemmsmith.trace.trace_file import trace, write_trace

MANGLED_FILL = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_"  # one parameter less than FILL
)


def kernel(duration: int, grid: int = 8, block: int = 256, registers: int = 128, name: str = "gemm") -> Event:
    return Event(KERNEL, name, 1000, duration, grid=(grid, grid, 1), block=(block, 1, 1), registers=registers)


def table_of(events: list[Event] | tuple[Event, ...], key: str, by_grid: bool = False) -> Table:
    return next(t for t in tables(tuple(events), by_grid) if t.key == key)


# ── statistics ──


def test_statistics_equal_numpys() -> None:
    random = np.random.default_rng(3)
    times = {name: random.integers(1, 10**7, size=size) for name, size in (("a", 101), ("b", 40), ("c", 1))}
    events = [kernel(int(t), name=name) for name, values in times.items() for t in values]
    found = table_of(events, "cuda_gpu_kern_sum")
    whole = sum(int(values.sum()) for values in times.values())
    assert [row.total for row in found.rows] == sorted((row.total for row in found.rows), reverse=True)
    assert {row.name for row in found.rows} == set(times)
    for row in found.rows:
        values = times[row.name]
        assert (row.count, row.total) == (len(values), values.sum())
        assert (row.minimum, row.maximum) == (values.min(), values.max())
        assert row.average == pytest.approx(values.mean(), rel=1e-12)
        assert row.median == pytest.approx(np.median(values), rel=1e-12)
        assert row.deviation == pytest.approx(values.std(ddof=1) if len(values) > 1 else 0.0, rel=1e-12)
        assert row.share == pytest.approx(100 * values.sum() / whole, rel=1e-12)
    assert sum(row.share for row in found.rows) == pytest.approx(100)


def test_each_kind_has_its_table() -> None:
    found = {t.key: {row.name: row.total for row in t.rows} for t in tables(RUN)}
    assert found == {
        "cuda_api_sum": {"cudaMemcpyAsync": 8_500, "cuLaunchKernel": 8_000, "cudaMemsetAsync": 4_000},
        "cuda_gpu_kern_sum": {"gemm": 35_250, FILL: 2_500},
        "cuda_gpu_mem_time_sum": {"[CUDA memcpy Host-to-Device]": 3_125, "[CUDA memset]": 1_000},
        "cuda_gpu_mem_size_sum": {"[CUDA memcpy Host-to-Device]": 4_194_304, "[CUDA memset]": 1024},
    }
    assert {t.unit for t in tables(RUN) if t.key.endswith("size_sum")} == {"bytes"}


def test_an_empty_recording_has_four_empty_tables() -> None:
    assert [t.rows for t in tables(())] == [(), (), (), ()]
    assert totals(Recording((), "cupti", 5, 0)).gpu_busy == 0
    assert mixed_rows(()) == ()


def test_sizes_of_zero_bytes_have_no_share() -> None:
    (row,) = table_of([Event(SET, "[CUDA memset]", 0, 5, 0)], "cuda_gpu_mem_size_sum").rows
    assert row.share == 0.0


def test_by_grid_has_one_row_per_grid() -> None:
    events = [kernel(10, 8), kernel(12, 8), kernel(40, 16)]
    rows = table_of(events, "cuda_gpu_kern_gb_sum", by_grid=True).rows
    assert [(row.grid, row.count, row.total) for row in rows] == [((16, 16, 1), 1, 40), ((8, 8, 1), 2, 22)]
    assert label(rows[0]) == "gemm ⟨16×16, 256⟩"
    assert len(table_of(events, "cuda_gpu_kern_sum").rows) == 1
    long = replace(rows[0], name="void ns::a_name_too_long_for_a_row<128, 256>(int)", block=(32, 4, 2))
    assert label(long) == "a_name_too…56> ⟨16×16, 32×4×2⟩"
    assert len(label(replace(long, grid=None, block=None))) == 30


@pytest.mark.parametrize(
    ("spans", "expected"),
    [([], 0), ([(0, 10)], 10), ([(0, 10), (10, 5)], 15), ([(0, 10), (5, 10)], 15), ([(0, 100), (5, 10), (20, 5)], 100),
     ([(50, 10), (0, 10)], 20), ([(0, 10), (0, 10)], 10), ([(3, 0)], 0)],
)  # fmt: skip
def test_overlapping_times_count_once(spans: list[tuple[int, int]], expected: int) -> None:
    assert covered(Event(KERNEL, "k", start, length) for start, length in spans) == expected


def test_totals_of_a_run() -> None:
    whole = totals(Recording(RUN, "cupti", 100_000, 0))
    assert (whole.wall, whole.kernels, whole.memory, whole.api) == (100_000, 37_750, 4_125, 20_500)
    assert whole.gpu_busy == 35_250 + 4_125  # the fill ran beside gemm
    assert whole.gpu_span == 1_059_250 - 1_004_000


# ── mixed rows ──


def test_one_problem_does_not_warn() -> None:
    assert mixed_rows([kernel(100), kernel(110), kernel(299)]) == ()


def test_grids_that_share_a_row_are_named() -> None:
    (found,) = mixed_rows([kernel(35_000, 8), kernel(36_000, 8), kernel(140_000, 16)])
    assert (found.reason, [(p.grid, p.count) for p in found.parts]) == ("grids", [((16, 16, 1), 1), ((8, 8, 1), 2)])
    assert found.text == (
        "gemm: min, max and deviation mix 2 grids: 16×16×1 (1×, median 140.0 µs); 8×8×1 (2×, median 35.5 µs)"
    )


@pytest.mark.parametrize("other", [{"block": 128}, {"registers": 64}])
def test_kernels_that_share_a_name_are_distinguished(other: dict[str, int]) -> None:
    (found,) = mixed_rows([kernel(100), kernel(100, **other)])
    assert found.reason == "kernels"
    assert f"{other.get('registers', 128)} registers" in found.text


def test_a_spread_at_one_grid_warns() -> None:
    (found,) = mixed_rows([kernel(100), kernel(301)])
    assert (found.reason, found.ratio) == ("spread", 3.01)
    assert "3.0 times as long as the fastest at the same grid, 8×8×1" in found.text
    assert mixed_rows([kernel(0), kernel(2)]) == ()


def test_copies_of_several_sizes_warn() -> None:
    copies = [Event(COPY, "[CUDA memcpy Host-to-Device]", 0, 5, size) for size in (4, 4, 4096)]
    (found,) = mixed_rows(copies)
    assert (found.reason, sorted(p.bytes for p in found.parts)) == ("sizes", [4, 4096])
    assert "4,096 B (1×" in found.text
    assert mixed_rows(copies[:2]) == ()


def test_by_grid_leaves_only_the_spread() -> None:
    events = [kernel(100, 8), kernel(900, 16), kernel(100, 16)]
    assert [m.reason for m in mixed_rows(events)] == ["grids"]
    assert [(m.reason, m.parts[0].grid) for m in mixed_rows(events, by_grid=True)] == [("spread", (16, 16, 1))]


def test_many_grids_are_abbreviated() -> None:
    (found,) = mixed_rows([kernel(100, grid) for grid in range(1, 8)])
    assert len(found.parts) == 7
    assert found.text.endswith("; and 3 more")


# ── names ──


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("gemm", "gemm"),
        (FILL, "vectorized_elementwise_kernel<4, FillFunctor<float>>"),
        ("void (anonymous namespace)::k<(int)4>(float*)", "k<(int)4>"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nn_align1>(cutlass_80::Params)",
         "Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nn_align1>"),
        ("void ns::call(void (*)(int))", "call"),
        ("[CUDA memcpy Host-to-Device]", "[CUDA memcpy Host-to-Device]"),
        ("sm90_xmma_gemm_f32f32_tn_n", "sm90_xmma_gemm_f32f32_tn_n"),
        ("k(int) [clone .1]", "k(int) [clone .1]"),
        ("(odd)", "(odd)"),
    ],
)  # fmt: skip
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


def test_demangling() -> None:
    assert short_name(demangled(MANGLED_FILL)).startswith("vectorized_elementwise_kernel<4, FillFunctor<float>")
    assert demangled("_Z4gemmiPKfS0_Pf") == "gemm(int, float const*, float const*, float*)"
    assert demangled("gemm") == "gemm"
    assert demangled("_Znot a name") == "_Znot a name"


def test_names_of_calls_and_copies() -> None:
    assert api_name("cudaLaunchKernel_v7000") == "cudaLaunchKernel"
    assert api_name("cudaLaunchKernelExC_v11060") == "cudaLaunchKernelExC"
    assert api_name("cuMemAlloc_v2") == "cuMemAlloc_v2"
    assert {copy_name(text) for text in ("HtoD", "HTOD", "Host-to-Device")} == {"[CUDA memcpy Host-to-Device]"}
    assert copy_name("Unified Host-to-Device") == "[CUDA memcpy Unified Host-to-Device]"


# ── the tools' output ──


def test_reading_a_torch_trace() -> None:
    assert ordered(read_torch_trace(DATA / "timeline_torch.json")) == ordered(RUN)


def nsys_database(path: Path, change: str = "") -> Path:
    database = sqlite3.connect(path)
    database.executescript((DATA / "timeline_nsys.sql").read_text() + change)
    database.commit()
    database.close()
    return path


def test_reading_an_nsys_export(tmp_path: Path) -> None:
    assert ordered(read_nsys_database(nsys_database(tmp_path / "a.sqlite"))) == ordered(RUN)


def test_an_nsys_export_may_lack_tables(tmp_path: Path) -> None:
    drop = "".join(f"DROP TABLE CUPTI_ACTIVITY_KIND_{name};" for name in ("KERNEL", "MEMCPY", "MEMSET"))
    path = nsys_database(tmp_path / "a.sqlite", drop + "DROP TABLE ENUM_CUDA_MEMCPY_OPER;")
    assert {event.kind for event in read_nsys_database(path)} == {API}


def test_an_export_of_another_schema_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    path = nsys_database(tmp_path / "a.sqlite", "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridX;")
    with pytest.raises(LaunchError, match="gridX"):
        read_nsys_database(path)


def test_events_round_trip_through_their_file(tmp_path: Path) -> None:
    write_events(tmp_path / "events.json", RUN)
    assert read_events(tmp_path / "events.json") == RUN


# ── the trace ──


def test_the_trace_has_what_perfetto_needs() -> None:
    found = json.loads(json.dumps(trace(Recording(RUN, "cupti", 1, 0), "script.py"), allow_nan=False))
    slices = [e for e in found["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == len(RUN)
    for item in slices:
        assert {"name", "cat", "pid", "tid", "ts", "dur", "args"} <= set(item)
        assert all(isinstance(item[key], int) for key in ("pid", "tid"))
    assert min(item["ts"] for item in slices) == 0
    gemm = next(item for item in slices if item["name"] == "gemm")
    assert (gemm["ts"], gemm["dur"], gemm["args"]["grid"]) == (24.0, 35.25, [8, 8, 1])
    named = {(e["pid"], e["tid"]) for e in found["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {(item["pid"], item["tid"]) for item in slices} == named
    titles = {e["args"]["name"] for e in found["traceEvents"] if e["ph"] == "M" and "name" in e["args"]}
    assert titles == {"CUDA API, process 4242", "GPU 0", "thread 4242", "stream 7", "stream 9"}
    assert found["otherData"]["command"] == "script.py"


def test_arrows_lead_from_calls_to_their_work() -> None:
    items = trace(Recording(RUN, "cupti", 1, 0), "x")["traceEvents"]
    starts = {e["id"]: e for e in items if e["ph"] == "s"}
    ends = {e["id"]: e for e in items if e["ph"] == "f"}
    assert set(starts) == set(ends)
    assert len(starts) == 4
    pairs = {(starts[i]["ts"], ends[i]["ts"]) for i in starts}
    assert pairs == {(0.0, 4.0), (10.0, 12.0), (20.0, 24.0), (30.0, 30.5)}
    assert all(e["bp"] == "e" for e in ends.values())


def test_overlaps_on_one_stream_get_their_own_track() -> None:
    spans = [(0, 100), (50, 100), (100, 10), (149, 10), (150, 10)]
    events = tuple(Event(KERNEL, f"k{i}", start, length, stream=7) for i, (start, length) in enumerate(spans))
    slices = [e for e in trace(Recording(events, "cupti", 1, 0), "x")["traceEvents"] if e["ph"] == "X"]
    by_track: dict[int, list[Any]] = {}
    for item in slices:
        by_track.setdefault(item["tid"], []).append(item)
    assert len(by_track) == 2
    for items in by_track.values():
        for before, after in itertools.pairwise(items):
            assert round(1000 * (before["ts"] + before["dur"])) <= round(1000 * after["ts"])


def test_a_trace_may_be_compressed(tmp_path: Path) -> None:
    recording = Recording(RUN, "cupti", 1, 0)
    write_trace(tmp_path / "a.json", recording, "x")
    write_trace(tmp_path / "a.json.gz", recording, "x")
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()
    with pytest.raises(UsageError, match="cannot write"):
        write_trace(tmp_path, recording, "x")


# ── targets ──


@pytest.mark.parametrize(
    ("words", "own", "rest"),
    [
        (["--json", "s.py", "--json"], ["--json"], ["s.py", "--json"]),
        (["--top", "3", "s.py", "--top", "4"], ["--top", "3"], ["s.py", "--top", "4"]),
        (["--top=3", "-m", "mod", "-h"], ["--top=3"], ["-m", "mod", "-h"]),
        (["--json", "--", "bench", "x", "--json"], ["--json"], ["--", "bench", "x", "--json"]),
        (["--json"], ["--json"], []),
        ([], [], []),
    ],
)
def test_words_after_the_program_belong_to_it(words: list[str], own: list[str], rest: list[str]) -> None:
    assert split_words(words, frozenset({"--top", "--tool", "--trace"})) == (own, rest)


def test_targets(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("")
    assert target_of([str(script), "-x"]) == Target("script", str(script), ("-x",))
    assert target_of(["-m", "mod", "-x"]) == Target("module", "mod", ("-x",))
    assert target_of(["--", "bench", "naive"]) == Target("command", "gemmsmith", ("bench", "naive"))
    for words in ([str(script), "-x"], ["-m", "mod", "-x"], ["--", "bench", "naive"]):
        assert target_of(words).words == words
    kernel_file = tmp_path / "k.cu"
    kernel_file.write_text("")
    for words, message in (([], "nothing to run"), (["-m"], "nothing follows"), (["no.py"], "no script"),
                           (["bench"], "gemmsmith command"), ([str(kernel_file)], "a kernel")):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            target_of(words, ["bench"])
