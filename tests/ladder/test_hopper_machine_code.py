"""The Hopper rungs without a GPU: their machine code and their budgets.

They cannot run here, so the tests read their machine code. Compiling all of them takes minutes: each configuration is
compiled in two combinations of types and layouts that together cover each side of each choice."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from hopper_machine_cases import (
    CASES,
    EPILOGUES,
    NAMES,
    REGISTERS,
    SPECIALIZED,
    STORING,
    WARPGROUP,
    Case,
    built,
    case,
    code,
    configurations,
    each_case,
    each_shifted,
    each_split,
    each_unaligned,
    problem_of,
)

from gemmsmith.compile.sass import Instruction
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.kernel.renamed import DIRECT, THREADS, TMA
from gemmsmith.ladder.registry import rung_named, rungs_for
from gemmsmith.problem import BF16, FP16, FP32, ceil_div


def test_every_choice_is_compiled_at_least_once() -> None:
    for name in NAMES:
        mine = [it for it in CASES if it.name == name]
        assert {it.problem.dtype for it in mine} == {FP16, BF16}
        assert {it.problem.out_dtype.itemsize for it in mine} == {2, 4}
        assert {it.problem.trans_a for it in mine} == {it.problem.trans_b for it in mine} == {False, True}
    assert {it.problem.layout for it in CASES} == {"NN", "NT", "TN", "TT"}
    for name in STORING:
        assert {it.config["STORE_MODE"] for it in CASES if it.name == name} == {DIRECT, THREADS, TMA}
    tail = [it for it in CASES if len(it.widths) > 1]
    assert {it.problem.trans_b for it in tail} == {it.value("CLUSTER_M") > 1 for it in tail} == {False, True}
    unaligned = [it for it in CASES if it.unaligned is not None]
    assert {(it.unaligned, it.sides[it.unaligned or 0][1]) for it in unaligned} == {
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    }
    assert {it.value("DEPTH") for it in unaligned} == {1, 2, 4}
    assert {it.consumers for it in unaligned} == {1, 2}
    shifted = [it for it in unaligned if it.shifted is not None]
    assert {(it.shifted, it.sides[it.shifted or 0][1]) for it in shifted} == {(0, False), (0, True), (1, False),
                                                                              (1, True)}  # fmt: skip
    assert {it.value("DEPTH") for it in shifted} == {1, 2, 4}
    assert {it.consumers for it in shifted} == {1, 2}


@each_case
def test_products_are_wgmma_of_the_whole_tile(it: Case) -> None:
    found = [i for i in code(it).instructions if i.base == "HGMMA"]
    products = it.value("DEPTH") * (64 // 16) * ceil_div(it.config["BM"] // it.consumers, 64)
    suffix = ".BF16" if it.problem.dtype == BF16 else ""
    of_widths = {f"HGMMA.64x{width}x16.F32{suffix}": products for width in it.widths}
    written = 2 if it.in_two_parts else 1
    assert Counter(i.opcode for i in found) == {opcode: written * count for opcode, count in of_widths.items()}
    loops = [Counter(i.opcode for i in loop.instructions if i.base == "HGMMA") for loop in code(it).loops]
    for opcode in of_widths:
        assert {opcode: products} in loops, "one loop over k for each width"
    a, b = it.sides[::-1] if it.swapped else it.sides
    for instruction in found:
        assert (".tnspA" in instruction.text) == (not a[1] and it.unaligned is None)
        assert (".tnspB" in instruction.text) != b[1]
        descriptors = [operand.startswith("gdesc[") for operand in instruction.operands]
        assert descriptors.count(True) == 1, "one descriptor, for one operand or for both"
        assert descriptors.index(True) == (1 if it.unaligned is None else 2)
        assert it.unaligned is None or re.fullmatch(r"R\d+(\.reuse)?", instruction.operands[1]), "A is in registers"
    assert not code(it).counts["HMMA"]


@each_case
def test_one_thread_asks_tma_for_whole_k_tiles(it: Case) -> None:
    asked = [i.opcode for i in code(it).instructions if i.base == "UTMALDG"]
    shared = Counter({parts > 1: 0 for _, _, parts in it.sides})
    for width in it.widths:
        for boxes, (_, _, parts) in zip(it.boxes_of(width), it.sides, strict=True):
            shared[parts > 1] += boxes * it.value("DEPTH")
    many, single = shared[True], shared[False]
    places = 2 if it.name == "wgmma_tma" else 1  # before the loop as well
    assert asked.count("UTMALDG.3D.MULTICAST") == places * many
    assert asked.count("UTMALDG.3D") == places * single
    assert not {"LDSM"} & code(it).counts.keys()
    assert it.unaligned is not None or not code(it).counts["LDGSTS"], "no thread copies operands"
    prefetched = len([i for i in code(it).instructions if i.opcode == "UTMACCTL.PF"])
    assert prefetched == len(it.mapped), "an unaligned operand has no map"


@each_unaligned
def test_an_unaligned_operand_is_copied_in_16_byte_chunks_with_zero_fill(it: Case) -> None:
    loop, found = code(it).main_loop(), [i for i in code(it).instructions if i.base == "LDGSTS"]
    assert loop is not None
    modifiers = [set(i.opcode.split(".")) for i in found]
    assert all({"BYPASS", "128"} <= each for each in modifiers)
    assert any("ZFILL" in each for each in modifiers)
    assert not {"LDG", "LDGSTS", "UTMALDG"} & loop.counts.keys(), "consumers do not copy"
    arrivals = [i for i in code(it).instructions if i.base == "ARRIVES"]
    assert len(arrivals) == 1
    assert arrivals[0].opcode.startswith("ARRIVES.LDGSTSBAR")
    assert arrivals[0].offset > max(i.offset for i in found), "all copies of a stage arrive together"
    assert re.findall(r"cp\.async\.mbarrier\.arrive\S*", built(it).ptx) == [
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64"
    ]
    assert code(it).counts["UTMALDG"] == it.value("DEPTH") * it.boxes[1 - (it.unaligned or 0)]


def load_loop(it: Case) -> tuple[Instruction, ...]:
    """The producer's loop that writes operands to shared memory."""
    loops = [loop for loop in code(it).loops if "STS.128" in {i.opcode for i in loop.instructions}]
    assert len(loops) == 1
    return loops[0].instructions


@each_shifted
def test_the_other_unaligned_operand_goes_through_registers_of_the_producer(it: Case) -> None:
    """Two aligned loads per chunk, all of a stage in flight together, issued before the copies of the first operand."""
    opcodes = [i.opcode for i in load_loop(it)]
    loads = [n for n, opcode in enumerate(opcodes) if opcode.startswith("LDG.")]
    stores = [n for n, opcode in enumerate(opcodes) if opcode == "STS.128"]
    copies = [n for n, opcode in enumerate(opcodes) if opcode.startswith("LDGSTS")]
    assert (len(loads), len(stores)) == (2 * it.shifted_chunks, it.shifted_chunks)
    assert loads[-1] < copies[0] < copies[-1] < stores[0], "the copies overlap with waiting for the loads"
    granules = [load_loop(it)[n] for n in loads]
    assert {i.opcode for i in granules} == {"LDG.E.128"}
    assert all(i.text.startswith("@") for i in granules), "nothing outside the matrix is read"
    assert len({i.operands[0] for i in granules}) == len(loads), "no load waits for another"
    assert sum("+0x10]" in i.text for i in granules) == it.shifted_chunks, "the two loads of a chunk are adjacent"


@each_shifted
def test_stores_of_threads_are_fenced_before_the_barrier_arrival(it: Case) -> None:
    """wgmma reads shared memory through the async proxy, as TMA writes it."""
    written = max(i.offset for i in load_loop(it) if i.opcode == "STS.128")
    after = [i for i in load_loop(it) if i.offset > written and i.base in ("FENCE", "SYNCS", "ARRIVES")]
    assert [i.opcode for i in after] == ["FENCE.VIEW.ASYNC.S", "SYNCS.ARRIVE.TRANS64.A1T0"]
    assert f"+{it.before_barriers:#x}]" in after[1].text, "the full barrier of a stage"
    assert not after[1].text.startswith("@"), "every thread arrives"


@each_unaligned
def test_fragments_of_an_unaligned_operand_are_read_while_wgmma_runs(it: Case) -> None:
    loop, depth = code(it).main_loop(), it.value("DEPTH")
    assert loop is not None
    read = Counter(i.opcode for i in loop.instructions if i.base == "LDS")
    k_major = it.sides[it.unaligned or 0][1]
    tiles = it.config["BM"] // 64 // it.consumers
    assert read == {"LDS" if k_major else "LDS.U16": 2 * 4 * (64 // 16) * tiles * depth}, "two for each register"
    waits = [i.operands for i in loop.instructions if i.opcode == "WARPGROUP.DEPBAR.LE"]
    assert waits == [("gsb0", "0x0" if depth == 1 else "0x1")] * depth, "one wgmma group is left running"
    groups = [i for i in loop.instructions if i.base == "HGMMA" and "gsb0" in i.operands]
    assert len(groups) == loop.counts["HGMMA"] // (64 // 16 * tiles) == depth, "one wgmma group per k-tile"


@pytest.mark.parametrize("it", [*CASES, *EPILOGUES], ids=str)
def test_outputs_leave_as_the_configuration_says(it: Case) -> None:
    """By TMA, in 16-byte chunks by threads, or directly from registers."""
    counts, mode = code(it).counts, it.value("STORE_MODE", DIRECT)
    assert (counts["UTMASTG"] > 0) == (mode == TMA)
    narrow = it.problem.out_dtype.itemsize == 2
    assert (counts["STSM"] > 0) == (mode != DIRECT and narrow), "stmatrix takes 16-bit elements"
    assert counts["STS"] > 0 or mode == DIRECT or narrow, "32-bit outputs go to their box by plain stores"
    assert mode != TMA or len(it.widths) > 1 or counts["UTMASTG"] % it.config["STORE_BOXES"] == 0
    assert counts["STG"] > 0, "unmapped outputs, and those with beta, are stored from registers"
    if it.name in STORING:
        opcodes = [i.opcode for i in code(it).instructions]
        pieces = opcodes.count("LDS.128") // 2  # each overlaps two chunks of the box
        assert (pieces > 0) == (mode == THREADS)
        partial = opcodes.count("LDG.E.128.STRONG.GPU")  # partial sums of rung 21
        assert opcodes.count("STG.E.128") == pieces + partial, "a chunk is one store"
        assert mode == TMA or (mode == DIRECT) != narrow, "TMA takes both; threads put 16-bit chunks together"


@pytest.mark.parametrize("it", [*CASES, *EPILOGUES], ids=str)
def test_nothing_is_spilled_and_the_compiler_does_not_complain(it: Case) -> None:
    used, log = built(it).resources, built(it).log
    if it.accumulators > 128 and it.problem.activation in ("gelu", "silu"):
        # 192 accumulators leave 40 registers, and these functions take more: some spill, after the loop over k.
        assert 0 < used.spill_stores <= 256
        loop = code(it).main_loop()
        assert loop is not None
        assert not {"STL", "LDL"} & loop.counts.keys()
    else:
        assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)
    # NVRTC 13.0 alone says C7519, that it adds a warpgroup.arrive; 13.2 and 13.4 make the same code without a word.
    said = "\n".join(line for line in log.splitlines() if "(C7519)" not in line)
    for complaint in ("C75", "setmaxnreg", "serialized", "warning", "Potential Performance Loss"):
        assert complaint not in said, log
    assert "ptxas info" in log, "the log has what ptxas says"
    assert used.registers * it.threads <= REGISTERS
    assert used.static_smem == 0


@each_case
def test_global_memory_is_not_accessed_before_griddepcontrol_wait(it: Case) -> None:
    names = [i.base for i in code(it).instructions]
    wait = names.index("ACQBULK")
    touching = {"LDG", "STG", "RED", "REDG", "ATOM", "ATOMG", "UTMALDG", "UTMASTG", "LDGSTS"}
    assert not touching & set(names[:wait])


@each_case
def test_no_thread_touches_local_memory(it: Case) -> None:
    assert not [i.text for i in code(it).instructions if i.base in ("STL", "LDL")]


@each_case
def test_setmaxnreg_moves_no_more_registers_than_there_are(it: Case) -> None:
    found = {i.opcode.split(".")[1]: int(i.operands[-1], 16) for i in code(it).instructions if i.base == "USETMAXREG"}
    if it.name not in SPECIALIZED or it.consumers == 1:
        assert not found
        return
    assert found.keys() == {"TRY_ALLOC", "DEALLOC"}
    assert found["DEALLOC"] < built(it).resources.registers < found["TRY_ALLOC"]
    assert WARPGROUP * (found["DEALLOC"] + it.consumers * found["TRY_ALLOC"]) <= REGISTERS
    assert all(n % 8 == 0 for n in found.values())


@pytest.mark.parametrize("it", [*CASES, *EPILOGUES], ids=str)
def test_bias_and_activation_are_compiled_only_where_asked_for(it: Case) -> None:
    """GELU and SiLU divide; the bias is the only data read through the read-only path."""
    assert ("div.rn.f32" in built(it).ptx) == (it.problem.activation in ("gelu", "silu"))
    assert ("ld.global.nc" in built(it).ptx) == bool(it.problem.bias)


@each_case
def test_shared_memory_is_as_the_header_comment_says_and_as_the_code_addresses_it(it: Case) -> None:
    geometry = it.spec.geometry(it.problem, it.config)
    stages, extra = it.config["STAGES"], 8 if it.name == "wgmma_split_k" else 0
    division = 16 if len(it.widths) > 1 else 0  # tells threads how many tail tiles there are
    assert geometry.smem == it.before_barriers + 16 * stages + extra + division <= LARGEST_SMEM
    assert geometry.threads == it.threads
    places = {int(offset, 16) for i in code(it).instructions if i.base == "SYNCS"
              for offset in re.findall(r"\+(0x[0-9a-f]+)\]", i.text)}  # fmt: skip
    kinds = 1 if it.name == "wgmma_tma" else 2
    start = it.before_barriers
    expected = {start + 8 * n for n in range(kinds * stages + extra // 8)}
    # Where the loop is not unrolled by stages, a register has the stage, and the offset is the first of its kind.
    first_of_each = {start + 8 * stages * n for n in range(kinds + extra // 8)}
    if any(place < start for place in places):  # NVRTC 13.0 may add the start of the barriers to a register first
        assert any(f"{start:#x}" in i.text for i in code(it).instructions if i.base in ("UIADD3", "VIADD", "IADD3"))
        places = {place if place >= start else place + start for place in places} | {start}  # [R] has no offset
    assert places in (expected, first_of_each)


@pytest.mark.parametrize("name", NAMES)
def test_the_header_comment_states_the_budget(name: str) -> None:
    budget = re.search(r"// Budget +(.*?)\n// Needs", rung_named(name).code, re.S)
    assert budget is not None
    text = " ".join(line.strip("/ ") for line in budget[1].splitlines())
    depth = "DEPTH * " if name in ("wgmma_split_k", "wgmma_cluster") else ""
    stated = f"STAGES * {depth}(BM + BN) * 128 bytes"
    assert stated in text or text.startswith("As 19")
    for config in configurations(name):
        aligned = case(name, config, problem_of("NT", BF16, FP32))  # both are K-major
        skew = 16 * config["BM"] if aligned.unaligned is not None else 0
        assert aligned.config["STAGES"] * aligned.stage_bytes == (
            config["STAGES"] * (aligned.value("DEPTH") * (ceil_div(config["BM"], 64) * 64 + config["BN"]) * 128 + skew)
        )


@each_case
def test_a_barrier_expects_the_bytes_of_all_boxes(it: Case) -> None:
    """The expect_tx counts of the code equal the bytes of the maps' boxes, from all blocks that share a k-tile."""
    assert it.spec.tensor_maps is not None
    maps = it.spec.tensor_maps(it.problem, it.config)
    brought = dict.fromkeys(it.widths, 0)
    for n, name in enumerate(("map_a", "map_b")):
        assert (name in maps) == (n in it.mapped)
        for width in it.widths if name in maps else ():
            parts = it.boxes_of(width)[n] * it.sides[n][2]
            brought[width] += parts * math.prod(maps[name].box) * it.problem.dtype.itemsize
    assert brought == {width: it.k_tile_bytes_of(width) if it.mapped else 0 for width in it.widths}
    expected = set(numbers_given(built(it).ptx, r"expect_tx\S* _, \[\S+\], (\S+);"))
    sums = {4 * it.config["BM"] * it.config["BN"]} if it.value("SPLIT") > 1 else set()
    assert expected == {it.value("DEPTH") * each for each in brought.values() if each} | sums


@each_split
def test_barriers_count_all_loaders_and_all_readers_of_a_stage(it: Case) -> None:
    """Loaders: TMA, and for each unaligned operand every producer thread. Readers: each consumer warpgroup once, or if
    threads read an unaligned operand themselves, each of its threads."""
    loading = (len(it.mapped) > 0) + WARPGROUP * (2 - len(it.mapped))
    reading = it.consumers * (1 if it.unaligned is None else WARPGROUP)
    of_sums = Counter([1 if it.config["SPLIT"] > 1 else it.consumers * WARPGROUP])
    stages = it.config["STAGES"]
    expected = Counter({loading: stages}) + Counter({reading: stages}) + of_sums
    assert Counter(numbers_given(built(it).ptx, r"mbarrier\.init\S* \[\S+\], (\S+);")) == expected


def numbers_given(ptx: str, pattern: str) -> Iterator[int]:
    for operand in re.findall(pattern, ptx):
        if operand.startswith("%"):
            (operand,) = re.findall(rf"mov\.[bu]32\s+{re.escape(operand)}, (\d+);", ptx)
        yield int(operand)


def test_sm_90_is_compiled_for_sm_90a() -> None:
    assert {built(it).arch for it in CASES[:2]} == {"sm_90a"}
    assert set(NAMES) <= {spec.name for spec in rungs_for(90)}
