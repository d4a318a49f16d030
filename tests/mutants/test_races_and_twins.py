"""Racy kernels and their legal twins: one warp, two warps, several blocks; shared and global memory; every schedule.

``[[…]]`` in a body is the cure: without it the kernel is racy, with it it is not. Every schedule must say so, and name
the same two lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_kernel import BEFORE, FLOATS, run_body

from gemmsmith.errors import SimulationError
from gemmsmith.sim.races.hazards import Hazard
from gemmsmith.sim.schedule import NAMES


@dataclass(frozen=True)
class Pair:
    """A body with its cure in brackets, and the kinds of races that it has without."""

    body: str
    kinds: str
    threads: int = 64
    blocks: int = 1
    across_blocks: bool = False

    @property
    def racy(self) -> str:
        return re.sub(r"\[\[.*?\]\]", "", self.body, flags=re.DOTALL)

    @property
    def legal(self) -> str:
        return self.body.replace("[[", "").replace("]]", "")


RAW, WAR, WAW = "read-after-write", "write-after-read", "write-after-write"

ONE_WARP = {
    "a neighbour's word": Pair(FLOATS + "s[t] = in[t]; [[__syncwarp();]]\nout[t] = s[t ^ 1];", RAW, 32),
    "a word that a neighbour still reads": Pair(
        FLOATS + "s[t] = in[t]; __syncwarp();\nfloat x = s[t ^ 1]; [[__syncwarp();]]\ns[t] = x;", WAR, 32),
    "two values in one word": Pair(
        FLOATS + "if (t == 3) s[0] = 1; [[__syncwarp();]]\nif (t == 9) s[0] = 2;\nout[t] = 0;", WAW, 32),
    "a third lane reads, not the lowest and not the highest": Pair(FLOATS + """
        if (t == 0) s[0] = 1;
        __syncwarp();
        float x = 0;
        if (t == 0 || t == 31) x = s[0];
        if (t == 0 || t == 31 || t == 7) __syncwarp(0x80000081u);
        if (t == 12) x = s[0];
        [[__syncwarp();]]
        if (t == 7) s[0] = 3;
        out[t] = x;""", WAR, 32),
    "tiles of sixteen, each with its own mask at one place": Pair(FLOATS + """
        s[t] = in[t];
        [[__syncwarp();]]
        __syncwarp(t < 16 ? 0x0000ffffu : 0xffff0000u);
        out[t] = s[t ^ 16];""", RAW, 32),
    "global memory": Pair("partial[t] = in[t]; [[__syncwarp();]]\nout[t] = partial[t ^ 1];", RAW, 32),
    "global memory that a neighbour still reads": Pair(
        "float x = partial[t ^ 1]; [[__syncwarp();]]\npartial[t] = x + 1; out[t] = x;", WAR, 32),
}  # fmt: skip

TWO_WARPS = {
    "the other warp's word": Pair(FLOATS + "s[t] = in[t]; [[__syncthreads();]]\nout[t] = s[t ^ 32];", RAW),
    "the second barrier of a loop": Pair(FLOATS + """
        float x = 0;
        for (int i = 0; i < 3; ++i) {
            s[t] = in[t] + i;
            __syncthreads();
            x += s[t ^ 33];
            [[__syncthreads();]]
        }
        out[t] = x;""", WAR),
    "a write hidden by one of the same value": Pair(FLOATS + """
        if (t == 0) s[0] = 1;
        if (t == 40) s[0] = 1;
        [[__syncthreads();]]
        out[t] = t == 40 ? s[0] : 0;""", RAW),
    "a write hidden by an atomic": Pair("""
        __shared__ int s;
        if (t == 0) s = 5;
        [[__syncthreads();]]
        if (t >= 32) atomicAdd(&s, t);
        __syncthreads();
        out[t] = s;""", WAW),
    "a read between two others of its warp": Pair(FLOATS + """
        if (t == 0) s[0] = 1;
        __syncthreads();
        float x = 0;
        if (t == 1 || t == 20 || t == 63) x = s[0];
        [[__syncthreads();]]
        if (t == 63) s[0] = 2;
        out[t] = x;""", WAR),
    "global memory": Pair("partial[t] = in[t]; [[__syncthreads();]]\nout[t] = partial[t ^ 32];", RAW),
    "a flag in shared memory without its fence": Pair("""
        __shared__ volatile int ready;
        __shared__ float d[32];
        if (t == 0) ready = 0;
        __syncthreads();
        if (t < 32) { while (!ready); __threadfence_block(); out[t] = d[t]; }
        else {
            d[t - 32] = in[t];
            __syncwarp();
            if (t == 32) { [[__threadfence_block();]] ready = 1; }
        }""", RAW),
}  # fmt: skip

BLOCKS = {
    "overlapping outputs": Pair(
        "const int width = 32; [[if (t >= width) return;]]\nout[blockIdx.x * width + t] = in[t] + blockIdx.x;", WAW),
    "another block's output": Pair("""
        out[blockIdx.x * 64 + t] = in[t];
        const int from = 64 [[+ 64]];
        if (blockIdx.x == 2) partial[t] = out[from + t];""", RAW),
    "a sum without atomics": Pair("if (t == 0) { [[if (blockIdx.x == 1)]] partial[7] += in[blockIdx.x]; }", "any"),
    "a volatile sum in a lock that is released without a fence": Pair("""
        if (t == 0) { while (atomicCAS(&gate, 0u, 1u) != 0u); __threadfence(); }
        __syncthreads();
        volatile float* sum = partial + t;
        *sum = *sum + in[t];
        [[__threadfence();]]
        __syncthreads();
        if (t == 0) { atomicExch(&gate, 0u); }""", "any"),
    "a plain store beside atomics": Pair("""
        if (t == 0 && blockIdx.x == 0) partial[1] = 0;
        [[if (t == 0 && blockIdx.x == 0)]] atomicAdd(&partial[1], in[t]);""", WAW),
    "the last block without the fence of the others": Pair("""
        __shared__ bool last;
        partial[blockIdx.x * 64 + t] = in[t];
        __syncthreads();
        if (t == 0) {
            [[__threadfence();]]
            last = atomicAdd(&counter, 1) == gridDim.x - 1;
            __threadfence();
        }
        __syncthreads();
        if (last) { float x = 0; for (int b = 0; b < gridDim.x; ++b) x += partial[b * 64 + t]; out[t] = x; }""", RAW),
    "each thread's fence before the barrier": Pair("""
        __shared__ bool last;
        partial[blockIdx.x * 64 + t] = in[t];
        [[__threadfence();]]
        __syncthreads();
        if (t == 0) last = atomicAdd(&counter, 1) == gridDim.x - 1;
        __syncthreads();
        if (last) { float x = 0; for (int b = 0; b < gridDim.x; ++b) x += partial[b * 64 + t]; out[t] = x; }""", RAW),
    "the last block resets the counter": Pair("""
        __shared__ bool last;
        if (t == 0) {
            __threadfence();
            last = atomicAdd(&counter, 1) == gridDim.x - 2 [[+ 1]];
        }
        __syncthreads();
        if (last && t == 5) counter = 0;""", WAW),
    "without a fence, the last block but one resets the counter": Pair("""
        if (t == 0 && atomicAdd(&counter, 1) == gridDim.x - 2 [[+ 1]]) counter = 0;""", WAW),
    "a second counter, whose atomics nobody waited for": Pair("""
        if (t == 0) {
            [[out[blockIdx.x] =]] atomicAdd(&gate, 1);
            if (atomicAdd(&counter, 1) == gridDim.x - 1) { gate = 0; counter = 0; }
        }""", WAW),
    "a counter that is set back orders no data": Pair("""
        partial[blockIdx.x * 64 + t] = in[t];
        __syncthreads();
        if (t == 0) {
            [[__threadfence();]]
            if (atomicAdd(&counter, 1) == gridDim.x - 1) { __threadfence(); out[0] = partial[64]; counter = 0; }
        }""", RAW),
    "not quite the last block": Pair("""
        __shared__ bool last;
        partial[blockIdx.x * 64 + t] = in[t];
        __syncthreads();
        if (t == 0) { __threadfence(); last = atomicAdd(&counter, 1) == gridDim.x - 2 [[+ 1]]; __threadfence(); }
        __syncthreads();
        if (last) { float x = 0; for (int b = 0; b < gridDim.x; ++b) x += partial[b * 64 + t]; out[t] = x; }""", RAW),
    "the leader releases before its block has written": Pair("""
        __shared__ bool last;
        partial[blockIdx.x * 64 + t] = in[t];
        [[__syncthreads();]]
        if (t == 0) { __threadfence(); last = atomicAdd(&counter, 1) == gridDim.x - 1; __threadfence(); }
        __syncthreads();
        if (last) { float x = 0; for (int b = 0; b < gridDim.x; ++b) x += partial[b * 64 + t]; out[t] = x; }""", RAW),
    "a barrier of the grid that lets go too early": Pair("""
        partial[blockIdx.x * 64 + t] = in[t];
        __syncthreads();
        if (t == 0) {
            __threadfence();
            atomicAdd(&counter, 1);
            while (*(volatile unsigned*)&counter < gridDim.x - 1 [[+ 1]]);
            __threadfence();
        }
        __syncthreads();
        float x = 0;
        for (int b = 0; b < gridDim.x; ++b) x += partial[b * 64 + t];
        out[blockIdx.x * 64 + t] = x;""", RAW),
    "a fence for one block only": Pair("""
        if (blockIdx.x == 2) {
            partial[t] = in[t];
            __syncthreads();
            __threadfence_block(); [[__threadfence();]]
            if (t == 0) flag = 1;
        } else if (blockIdx.x == 0) {
            if (t == 0) { while (!flag); __threadfence(); }
            __syncthreads();
            out[t] = partial[t];
        }""", RAW),
    "a barrier in place of a fence after a loop that waits": Pair("""
        if (blockIdx.x == 2) { partial[t] = in[t]; __threadfence(); __syncthreads(); if (t == 0) atomicAdd(&gate, 1); }
        else if (blockIdx.x == 0) {
            if (t == 0) { while (atomicAdd(&gate, 0) == 0); [[__threadfence();]] }
            __syncthreads();
            out[t] = partial[t];
        }""", RAW),
    "a release for one block only": Pair("""
        if (blockIdx.x == 2) {
            partial[t] = in[t];
            __syncthreads();
            if (t == 0) asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" :: "l"(&counter) : "memory");
            if (t == 0) asm volatile("st.release.cta.global.u32 [%0], 1;" :: "l"(&gate) : "memory");
            [[if (t == 0) asm volatile("st.release.gpu.global.u32 [%0], 2;" :: "l"(&gate) : "memory");]]
        } else if (blockIdx.x == 0) {
            unsigned v = 0;
            [[if (t == 0)
                do asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(&gate)); while (v < 2);]]
            if (t == 0) do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(&gate)); while (!v);
            __syncthreads();
            out[t] = partial[t];
        }""", RAW),
}  # fmt: skip


def _spread(pairs: dict[str, Pair]) -> dict[str, Pair]:
    """Three blocks each, and races between them."""
    return {name: Pair(p.body, p.kinds, blocks=3, across_blocks=True) for name, p in pairs.items()}


ALL = {
    **{f"one warp: {name}": pair for name, pair in ONE_WARP.items()},
    **{f"two warps: {name}": pair for name, pair in TWO_WARPS.items()},
    **{f"blocks: {name}": pair for name, pair in _spread(BLOCKS).items()},
}


def _lines(hazards: tuple[Hazard, ...]) -> set[tuple[str, str, str]]:
    return {(hazard.kind, hazard.first.where, hazard.second.where) for hazard in hazards}


def _id(name: str) -> str:
    return name.replace(" ", "-")


@pytest.mark.parametrize("name", ALL, ids=_id)
def test_every_schedule_names_the_same_race(name: str, tmp_path: Path) -> None:
    pair = ALL[name]
    found = [
        run_body(tmp_path, pair.racy, threads=pair.threads, blocks=pair.blocks, schedule=order, before=BEFORE).hazards
        for order in NAMES
    ]
    assert all(found), dict(zip(NAMES, map(bool, found), strict=True))
    assert all(_lines(hazards) == _lines(found[0]) for hazards in found), [_lines(h) for h in found]
    assert pair.kinds in ("any", *(hazard.kind for hazard in found[0]))
    assert any(hazard.across_blocks for hazard in found[0]) == pair.across_blocks
    assert any(hazard.across_warps for hazard in found[0]) == (pair.threads > 32)


@pytest.mark.parametrize("name", ALL, ids=_id)
def test_the_legal_twin_is_not_accused(name: str, tmp_path: Path) -> None:
    pair = ALL[name]
    for order in NAMES:
        outcome = run_body(
            tmp_path, pair.legal, threads=pair.threads, blocks=pair.blocks, schedule=order, before=BEFORE
        )
        assert not outcome.hazards, (order, *map(str, outcome.hazards))


@pytest.mark.parametrize("order", NAMES)
@pytest.mark.parametrize(
    ("access", "said"),
    [
        ("As[t + int(in[0])]", r"0 bytes past the end of As \(256 bytes\), into Bs"),
        ("Bs[t - int(in[1])]", r"8 bytes before Bs \(512 bytes\), into As"),
    ],
)
def test_an_access_beyond_a_shared_array_names_its_neighbour(
    access: str, said: str, order: str, tmp_path: Path
) -> None:
    body = "__shared__ float As[64], Bs[128];\nAs[t] = in[t]; Bs[t] = 1; Bs[t + 64] = 2; __syncthreads();\n"
    assert not run_body(tmp_path, body + "out[t] = As[63 - t] + Bs[t + 64];", schedule=order).hazards
    with pytest.raises(SimulationError, match=said) as caught:
        run_body(tmp_path, body + f"out[t] = As[63 - t] + Bs[t + 64] + {access};", schedule=order)
    assert "small.cu:5" in str(caught.value.hint)


@pytest.mark.parametrize("order", NAMES)
def test_an_access_beyond_an_array_into_memory_that_nobody_has_written_yet(order: str, tmp_path: Path) -> None:
    body = "__shared__ float As[64], Bs[128];\nAs[t] = in[t];\n"
    with pytest.raises(SimulationError, match=r"past the end of As \(256 bytes\), into Bs|no thread has written"):
        run_body(tmp_path, body + "float x = As[t + 64 + int(in[0]) % 2];\nBs[t] = x; Bs[t + 64] = x; __syncthreads();"
                 "\nout[t] = Bs[127 - t];",
                 schedule=order)  # fmt: skip
