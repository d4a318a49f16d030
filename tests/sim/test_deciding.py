"""What decides nothing is not computed where data do not move: no warp executes or accesses anything else."""

from __future__ import annotations

import pytest

from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.sampled import Sample
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.sim import device as simulator
from gemmsmith.sim.lowering.deciding import undecided
from gemmsmith.sim.lowering.lower import lower
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.ptx.reader import parse

_HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def lowered(
    body: str, declared: str = ".reg .pred %p<9>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<20>;"
) -> Lowered:
    text = f"{_HEAD}.visible .entry k(.param .u64 a, .param .u32 n)\n{{\n{declared}\n{body}\nret;\n}}\n"
    return lower(parse(text).entry("k"), {})


def idle(body: str) -> set[str]:
    """The instructions that decide nothing."""
    program = lowered(body)
    return {program.operations[position].instruction.text.rstrip(";") for position in undecided(program)}


_START = "ld.param.u64 %rd1, [a];\nld.param.u32 %r1, [n];\n"


def test_values_that_are_only_stored_decide_nothing() -> None:
    found = idle(_START + """
        add.s64 %rd2, %rd1, 8;
        ld.global.f32 %f1, [%rd2];
        mul.f32 %f2, %f1, %f1;
        st.global.f32 [%rd1], %f2;""")  # fmt: skip
    assert found == {"mul.f32 %f2, %f1, %f1"}


def test_values_that_are_stored_and_loaded_as_an_address_decide() -> None:
    found = idle(_START + """
        add.s32 %r2, %r1, 4;
        st.global.u32 [%rd1], %r2;
        ld.global.u32 %r3, [%rd1];
        cvt.u64.u32 %rd3, %r3;
        add.s64 %rd4, %rd1, %rd3;
        st.global.u32 [%rd4], %r1;""")  # fmt: skip
    assert not found


def test_what_a_later_round_of_a_loop_branches_on_decides() -> None:
    found = idle(_START + """
        mov.u32 %r2, 0;
        mov.f32 %f1, 0f00000000;
        again:
        setp.ge.u32 %p1, %r2, %r1;
        @%p1 bra done;
        add.f32 %f1, %f1, %f1;
        add.u32 %r2, %r2, 1;
        bra again;
        done:
        st.global.f32 [%rd1], %f1;""")  # fmt: skip
    assert found == {"mov.f32 %f1, 0f00000000", "add.f32 %f1, %f1, %f1"}


def test_a_guarded_write_leaves_what_was_there() -> None:
    found = idle(_START + """
        setp.eq.u32 %p1, %r1, 3;
        add.s64 %rd2, %rd1, 16;
        @%p1 add.s64 %rd2, %rd1, 32;
        st.global.u32 [%rd2], %r1;""")  # fmt: skip
    assert not found


def test_what_is_wanted_under_one_predicate_is_written_under_it() -> None:
    found = idle(_START + """
        setp.eq.u32 %p1, %r1, 3;
        mul.lo.u64 %rd2, %rd1, 5;
        @%p1 add.s64 %rd2, %rd1, 32;
        @%p1 st.global.u32 [%rd2], %r1;""")  # fmt: skip
    assert found == {"mul.lo.u64 %rd2, %rd1, 5"}


def test_products_whose_sums_are_looked_at_decide() -> None:
    """``fp32_wgmma_registers`` computes infinite sums anew; each wgmma adds to the sums of the one before."""
    spec = rung_named("fp32_wgmma_registers")
    program = Predictor(spec, spec.config(), Problem(256, 256, 128), gpu_named("H200")).program
    products = {o.position for o in program.operations if o.traits.called == "wgmma.mma_async" and o.targets}
    assert len(products) > 5
    assert not products & undecided(program)


@pytest.mark.parametrize("name", ["block_tile_1d", "fp32_wgmma_registers"])
def test_streams_are_the_same_without_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = rung_named(name)

    def sample() -> tuple[Sample, int]:
        predictor = Predictor(spec, spec.config(), Problem(256, 256, 128, dtype=spec.dtypes[0]), gpu_named("H200"))
        found = predictor.subject.sample(predictor.problem, [0])
        return found, len(predictor.program.fact(undecided))

    fast, idle_ones = sample()
    monkeypatch.setattr(simulator, "undecided", lambda _: frozenset())
    whole, _ = sample()
    assert idle_ones > 20
    assert fast.streams == whole.streams
