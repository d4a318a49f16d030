"""ncu's source page mapped to source lines.

``data/source_page.csv.gz`` is the output of ncu 2025.3.1 for rung warp_tile at 256³ on an H200, without unused columns.
``data/source_page.sass.gz`` is nvdisasm's listing of the same machine code, without operands. The totals below come
from the same run.
"""

from __future__ import annotations

import dataclasses
import gzip
from functools import cache
from pathlib import Path

import pytest

from gemmsmith.compile.sass import Instruction, Sass, parse_sass
from gemmsmith.errors import LaunchError
from gemmsmith.explain.ncu import parse_raw_page
from gemmsmith.explain.profile import EXCESS, THEORETICAL_SECTORS, Line
from gemmsmith.explain.source_page import (
    Page,
    Row,
    contributions,
    correlate,
    line_sums,
    lines_of,
    parse_pages,
)

DATA = Path(__file__).parents[1] / "data"
OWN = "10_warp_tile.cu"
WAVES = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
KERNEL = {
    "smsp__inst_executed.sum": 597_328.0,
    "smsp__sass_inst_executed_op_shared_ld.sum": 24_576.0,
    WAVES.format("ld"): 81_920.0,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 16_777_216.0,
    GLOBAL.format("sectors", "ld"): 32_768.0,
}


@cache
def page_text() -> str:
    return gzip.decompress((DATA / "source_page.csv.gz").read_bytes()).decode()


@cache
def recorded() -> tuple[Page, Sass]:
    (page,) = parse_pages(page_text())
    return page, parse_sass(gzip.decompress((DATA / "source_page.sass.gz").read_bytes()).decode(), "gemm")


@cache
def recorded_lines() -> dict[tuple[str, int], Line]:
    lines = lines_of(correlate(*recorded()), OWN, lambda file: [f"{file}:{at}" for at in range(1, 200)])
    return {(line.file, line.number): line for line in lines}


def test_lines_sum_to_the_launch() -> None:
    sums = line_sums(list(recorded_lines().values()), KERNEL)
    assert {made.name for made in sums} == {*KERNEL} - {GLOBAL.format("sectors", "ld")}
    assert [made for made in sums if not made.equal] == []


def test_counts_are_on_the_right_line() -> None:
    lines = recorded_lines()
    stores, fragments, products = lines[OWN, 51], lines["vector.cuh", 25], lines[OWN, 114]
    # Rows of A go to shared memory one column at a time, two lanes to a bank.
    assert dict(stores.metrics) == {
        "smsp__sass_inst_executed_op_shared_st.sum": 4096, WAVES.format("st"): 8192, EXCESS: 4096,
    }  # fmt: skip
    assert (stores.excess, stores.total("wavefronts")) == (4096, 8192)
    assert fragments.total("wavefronts") == 81_920
    assert dict(products.metrics) == {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 16_777_216}
    assert dict(lines["epilogue.cuh", 53].metrics) == {GLOBAL.format("requests", "st"): 512, THEORETICAL_SECTORS: 8192}
    assert sum(line.total("_sectors_") for line in lines.values()) == 32_768 + 8192


def test_samples_and_stall_reasons_are_kept() -> None:
    stores = recorded_lines()[OWN, 51]
    assert (stores.samples, stores.top_stall) == (36, "long_sb")
    # Samples without an issue are a part of these, and no reason of their own.
    assert [row for row in recorded()[0].rows if sum(count for _, count in row.stalls) != row.samples] == []
    assert [line for line in recorded_lines().values() if sum(dict(line.stalls).values()) != line.samples] == []
    assert sum(line.samples or 0 for line in recorded_lines().values()) == sum(r.samples for r in recorded()[0].rows)


def test_a_selected_warp_is_not_stalled() -> None:
    line = Line("f", 1, "", 1, (), 5, (("selected", 3), ("wait", 2)))
    assert line.top_stall == "wait"
    assert dataclasses.replace(line, stalls=(("selected", 3),)).top_stall == ""


def test_lines_of_the_kernel_come_first_with_their_text() -> None:
    lines = list(recorded_lines().values())
    own = [line for line in lines if line.file == OWN]
    assert lines[: len(own)] == own
    assert [line.number for line in own] == sorted(line.number for line in own)
    assert own[0].text == f"{OWN}:{own[0].number}"
    assert [line for line in lines if not line.executed and not line.samples] == []


def changed(sass: Sass, at: int, **fields: object) -> Sass:
    instructions = list(sass.instructions)
    instructions[at] = dataclasses.replace(instructions[at], **fields)  # type: ignore[arg-type]
    return dataclasses.replace(sass, instructions=tuple(instructions))


@pytest.mark.parametrize("fields", [{"opcode": "LDC.128"}, {"predicate": "@P0"}, {"offset": 0x100000}])
def test_different_machine_code_is_an_error(fields: dict[str, object]) -> None:
    page, sass = recorded()
    with pytest.raises(LaunchError, match="different machine code of gemm than was compiled here: at 0x40"):
        correlate(page, changed(sass, 4, **fields))


def test_an_instruction_missing_from_ncu_is_an_error() -> None:
    page, sass = recorded()
    assert sass.instructions[-1].base == "NOP"
    cut = sum(1 for i in sass.instructions[-40:] if i.base == "NOP")
    correlate(Page("gemm", page.rows[:-cut]), sass)
    with pytest.raises(LaunchError, match="ncu has 'nothing'"):
        correlate(Page("gemm", page.rows[: -cut - 1]), sass)
    with pytest.raises(LaunchError, match="has no instructions"):
        correlate(Page("gemm", ()), sass)


def test_each_launch_has_its_own_page() -> None:
    short = "\n".join(page_text().splitlines()[:5]) + "\n"
    pages = parse_pages(short + short.replace('"gemm"', '"other"'))
    assert [(page.kernel, len(page.rows)) for page in pages] == [("gemm", 2), ("other", 2)]
    assert parse_pages("==ERROR== nothing") == ()


@pytest.mark.parametrize("column", ["# Samples", "Source", "Instructions Executed"])
def test_a_page_without_a_column_is_refused(column: str) -> None:
    with pytest.raises(LaunchError, match=f"no column '{column}'"):
        parse_pages(page_text().replace(f'"{column}"', '"Else"', 1))


def test_a_kernel_without_shared_memory_has_a_page_without_its_columns() -> None:
    text = page_text()
    for column in ("L1 Wavefronts Shared", "L1 Wavefronts Shared Excessive"):
        text = text.replace(f'"{column}"', '"Else"', 1)
    (page,) = parse_pages(text)
    assert not any(row.wavefronts or row.excess for row in page.rows)
    assert any(row.sectors for row in page.rows)


def test_an_instruction_with_a_false_predicate_makes_no_request() -> None:
    idle = Row(0, "@!PT LDS", "Shared", 10, 0, 0, 0, 0, 0, ())
    found = contributions(idle, Instruction(0, "LDS", (), "@!PT", None, None, "@!PT LDS"))
    assert found["smsp__sass_inst_executed_op_shared_ld.sum"] == 0


def test_a_truncated_page_is_refused() -> None:
    with pytest.raises(LaunchError, match="truncated"):
        parse_pages("\n".join(page_text().splitlines()[:20])[:-60])


def executed(opcode: str, space: str = "-") -> dict[str, int]:
    """The contributions of an instruction that ran 10 times: 300 threads, 40 wavefronts (7 excess), 80 sectors."""
    row = Row(0, opcode, space, 10, 300, 40, 7, 80, 0, ())
    found = contributions(row, Instruction(0, opcode, (), "", None, None, opcode))
    assert (found.pop(EXCESS), found.pop(THEORETICAL_SECTORS)) == (7, 80)
    return found


@pytest.mark.parametrize(
    ("opcode", "space", "expected"),
    [
        ("LDS.128", "Shared", {"smsp__sass_inst_executed_op_shared_ld.sum": 10, WAVES.format("ld"): 40}),
        ("STS", "Shared", {"smsp__sass_inst_executed_op_shared_st.sum": 10, WAVES.format("st"): 40}),
        ("LDGSTS.E.BYPASS.128", "Global", {GLOBAL.format("requests", "ld"): 10,
                                           "smsp__inst_executed_op_ldgsts.sum": 10, WAVES.format("ldgsts"): 40}),
        ("LD.E", "Shared", {"smsp__sass_inst_executed_op_shared_ld.sum": 10, WAVES.format("ld"): 40}),
        ("ATOMS.ADD", "Shared", {"memory_l1_wavefronts_shared": 40}),
    ],
)  # fmt: skip
def test_shared_memory_is_counted_by_operation(opcode: str, space: str, expected: dict[str, int]) -> None:
    assert executed(opcode, space) == expected


@pytest.mark.parametrize(
    ("opcode", "space", "name", "count"),
    [
        ("LDG.E.128.CONSTANT", "Global", GLOBAL.format("requests", "ld"), 10),
        ("STG.E", "Global", GLOBAL.format("requests", "st"), 10),
        ("ST.E", "Global", GLOBAL.format("requests", "st"), 10),
        ("FFMA", "-", "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 300),
        ("FMUL.FTZ", "-", "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 300),
        ("FADD", "-", "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 300),
    ],
)
def test_requests_count_warps_and_arithmetic_counts_threads(opcode: str, space: str, name: str, count: int) -> None:
    found = executed(opcode, space)
    assert found.pop("memory_l1_wavefronts_shared") == 40
    assert found == {name: count}


def test_a_difference_from_the_launch_is_reported() -> None:
    line = Line("f", 1, "", 5, ((GLOBAL.format("requests", "ld"), 3), (THEORETICAL_SECTORS, 12)), 0)
    kernel = {GLOBAL.format("requests", "ld"): 2.0, GLOBAL.format("sectors", "ld"): 8.0,
              GLOBAL.format("sectors", "st"): 4.0, "smsp__inst_executed.sum": 5.0}  # fmt: skip
    found = {made.name: made for made in line_sums([line], kernel)}
    assert {name: made.equal for name, made in found.items()} == {
        "smsp__inst_executed.sum": True, GLOBAL.format("requests", "ld"): False, THEORETICAL_SECTORS: True,
    }  # fmt: skip
    assert found[THEORETICAL_SECTORS].total_name != THEORETICAL_SECTORS


def test_the_raw_page_has_one_row_per_launch() -> None:
    text = (
        '==PROF== x\n"ID","Process ID","Kernel Name","smsp__inst_executed.sum","gpu__time_duration.sum","other"\n'
        '"","","","inst","ns","x"\n"0","524","gemm","597,328","8,512","CachePreferNone"\n"1","524","f","1","n/a",""\n'
    )
    asked = ["smsp__inst_executed.sum", "gpu__time_duration.sum", "dram__throughput"]
    assert parse_raw_page(text, asked) == [
        ("gemm", {"smsp__inst_executed.sum": 597_328.0, "gpu__time_duration.sum": 8512.0}),
        ("f", {"smsp__inst_executed.sum": 1.0}),
    ]
    assert parse_raw_page("==ERROR== no", asked) == []
