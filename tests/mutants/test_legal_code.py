"""Legal code that a race detector could accuse: every schedule finds nothing, and the same result."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_kernel import BEFORE, FLOATS, run_body

from gemmsmith.sim.schedule import NAMES

# Kernels that people write and that are legal: threads, blocks, body.
LEGAL = {
    "whole warps at the barriers of two loops, equally often": (64, 1, FLOATS + """
        float sum = 0;
        if (t < 32) for (int i = 0; i < 4; ++i) { s[t] = in[t] * i; __syncthreads(); sum += s[t ^ 1]; __syncthreads(); }
        else for (int i = 0; i < 4; ++i) { s[t] = in[t] + i; __syncthreads(); sum += s[t ^ 1]; __syncthreads(); }
        out[t] = sum;"""),
    "a warp that ends before the first barrier": (64, 1, FLOATS + """
        if (t >= 32) return;
        s[t] = in[t];
        __syncthreads();
        out[t] = s[t ^ 1];"""),
    "whole warps at two barriers": (64, 1, FLOATS + """
        s[t] = in[t];
        if (t < 32) { __syncthreads(); out[t] = s[t + 32]; }
        else        { __syncthreads(); out[t] = s[t - 32] * 2; }"""),
    "__syncwarp at two places with one mask": (64, 1, FLOATS + """
        s[t] = in[t];
        if (t % 2) { __syncwarp(); out[t] = s[t ^ 1]; }
        else       { __syncwarp(); out[t] = s[t ^ 1] * 2; }"""),
    "a shuffle at two places with one mask": (64, 1, """
        float x = in[t];
        if (t % 2) { x = __shfl_xor_sync(0xffffffffu, x, 1) * in[3]; out[t] = x; }
        else       { x = __shfl_xor_sync(0xffffffffu, x + 1, 1) - in[5]; out[t + 0] = x; }"""),
    "generic pointers into two memories": (64, 1, """
        __shared__ float d[64];
        d[t] = in[t];
        __syncthreads();
        const float* p = t % 3 ? d : in;
        asm volatile("" : "+l"(p));
        out[t] = p[t];"""),
    "warps that wait for each other in turn": (64, 1, """
        __shared__ volatile int turn;
        __shared__ float d;
        if (t == 0) { turn = 0; d = 0; }
        __syncthreads();
        if (t % 32 == 0)
            for (int i = t / 32; i < 6; i += 2) {
                while (turn != i);
                __threadfence_block();
                d += in[i];
                __threadfence_block();
                turn = i + 1;
            }
        __syncthreads();
        out[t] = d;"""),
    "blocks that wait for the block after them": (64, 3, """
        if (blockIdx.x < 2) {
            if (t == 0) { while (flag != gridDim.x - 1 - blockIdx.x); __threadfence(); }
            __syncthreads();
        }
        out[blockIdx.x * 64 + t] = in[t] + (blockIdx.x < 2 ? partial[t] : 0);
        __syncthreads();
        partial[t] = blockIdx.x;
        __syncthreads();
        if (t == 0) { __threadfence(); flag = gridDim.x - blockIdx.x; }"""),
    "each thread updates its own result": (64, 3, """
        out[blockIdx.x * 64 + t] = in[t];
        for (int i = 0; i < 3; ++i) out[blockIdx.x * 64 + t] = 2 * ((volatile float*)out)[blockIdx.x * 64 + t];"""),
    "all blocks store one value": (64, 3, "partial[0] = 7; out[blockIdx.x * 64 + t] = 1;"),
    "a histogram of atomics": (64, 3, "atomicAdd(&partial[t % 5], in[t]);"),
    "polling by an atomic": (64, 3, """
        if (blockIdx.x == 2) { partial[t] = in[t]; __threadfence(); __syncthreads(); if (t == 0) atomicAdd(&gate, 1); }
        else {
            if (t == 0) { while (atomicAdd(&gate, 0) == 0); __threadfence(); }
            __syncthreads();
            out[blockIdx.x * 64 + t] = partial[t];
        }"""),
    "polling by an atomic, loads from L2": (64, 3, """
        if (blockIdx.x == 2) { partial[t] = in[t]; __threadfence(); __syncthreads(); if (t == 0) atomicAdd(&gate, 1); }
        else {
            if (t == 0) while (atomicAdd(&gate, 0) == 0);
            __syncthreads();
            out[blockIdx.x * 64 + t] = __ldcg(&partial[t]);
        }"""),
    "a counter that is updated once, as the programming guide has it": (64, 3, """
        __shared__ bool last;
        if (blockIdx.x != 0) partial[blockIdx.x * 64 + t] = in[t];
        __threadfence();
        __syncthreads();
        if (t == 0) last = atomicAdd(&gate, 1) == 2;
        __syncthreads();
        if (last) out[t] = partial[64 + t] + partial[128 + t];"""),
    "tickets, whose counters the last block sets back": (64, 3, """
        __shared__ unsigned mine;
        for (unsigned ticket = 0; ticket < 5;) {
            if (t == 0) mine = atomicAdd(&gate, 1);
            __syncthreads();
            ticket = mine;
            __syncthreads();
        }
        if (t == 40 && atomicAdd(&counter, 1) == gridDim.x - 1) { gate = 0; counter = 0; }"""),
    "three of four: padding that is never used": (64, 1, """
        __shared__ float4 d[64];
        float* f = reinterpret_cast<float*>(d);
        f[4 * t] = in[t]; f[4 * t + 1] = 1; f[4 * t + 2] = 2;
        __syncthreads();
        const float4 v = d[63 - t];
        out[t] = v.x + v.y + v.z;"""),
    "three of four: another thread writes the padding": (64, 1, """
        __shared__ float4 d[64];
        volatile float* f = reinterpret_cast<float*>(d);
        f[4 * t] = in[t]; f[4 * t + 1] = 1; f[4 * t + 2] = 2;
        __syncthreads();
        const float4 v = d[63 - t];
        f[4 * t + 3] = t;
        out[t] = v.x + v.y + v.z;"""),
    "in place, one barrier before the stores": (64, 3, """
        float* mine = partial + blockIdx.x * 64;
        mine[t] = in[t];
        __syncthreads();
        const float x = mine[63 - t];
        __syncthreads();
        mine[t] = x;"""),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL, ids=lambda name: name.replace(" ", "-"))
def test_legal_code_is_not_accused(name: str, tmp_path: Path) -> None:
    threads, blocks, body = LEGAL[name]
    results = []
    for order in NAMES:
        outcome = run_body(tmp_path, body, threads=threads, blocks=blocks, schedule=order, before=BEFORE)
        assert not outcome.hazards, (order, *map(str, outcome.hazards))
        results.append(outcome.out.tobytes())
    assert len(set(results)) == 1
