"""The race detector on small kernels: what is a race and what is not, in every schedule.

Shared memory is volatile here, so that the compiler keeps every access.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from small_kernel import run_body

from gemmsmith.sim.schedule import NAMES

FLOATS = "    __shared__ volatile float s[256];\n"

# Kernel bodies without a race. ``t`` is threadIdx.x; 64 threads are two warps.
RIGHT = {
    "adjacent threads write the bytes of one word": """
        __shared__ volatile unsigned char s[64];
        s[t] = t;
        out[t] = s[t];""",
    "adjacent threads write the halves of one word": """
        __shared__ volatile unsigned short s[64];
        s[t] = t;
        __syncthreads();
        out[t] = s[t ^ 1];""",
    "a vector written by one thread, read by four after a barrier": """
        __shared__ float4 s[16];
        if (t < 16) s[t] = make_float4(in[t], 1, 2, 3);
        __syncthreads();
        out[t] = reinterpret_cast<volatile float*>(s)[t];""",
    "two alternating buffers, one barrier per step": FLOATS + """
        float sum = 0;
        for (int step = 0; step < 6; ++step) {
            const int base = step % 2 * 64;
            s[base + t] = in[t] * step;
            __syncthreads();
            sum += s[base + (t ^ 33)];
        }
        out[t] = sum;""",
    "a warp-wide tree reduction with __syncwarp": FLOATS + """
        s[t] = in[t];
        __syncwarp();
        for (int step = 16; step > 0; step /= 2) {
            const float other = s[t ^ step];
            __syncwarp();
            s[t] = s[t] + other;
            __syncwarp();
        }
        out[t] = s[t];""",
    "half a warp synchronises with its own mask": FLOATS + """
        s[t] = in[t];
        if (t % 32 < 16) { __syncwarp(0x0000ffffu); out[t] = s[t ^ 8]; }
        else             { __syncwarp(0xffff0000u); out[t] = s[t ^ 1]; }""",
    "diverged threads of a warp reconverge at __syncwarp": FLOATS + """
        if (t % 32 < 16) {
            float x = in[t];
            for (int i = 0; i < t % 4; ++i) x = x * in[t + i] + 1;
            s[t] = x;
        } else {
            s[t] = in[t];
        }
        __syncwarp();
        out[t] = s[t ^ 16];""",
    "atomic updates of one counter": """
        __shared__ int s;
        if (t == 0) s = 0;
        __syncthreads();
        atomicAdd(&s, t);
        __syncthreads();
        out[t] = s;""",
    "all threads set one flag to the same value": """
        __shared__ volatile int flag;
        if (t == 0) flag = 0;
        __syncthreads();
        if (in[t] > 0) flag = 1;
        __syncthreads();
        out[t] = flag;""",
    "all threads write the same NaN": """
        __shared__ volatile unsigned s;
        s = 0x7fc00001u;
        __syncthreads();
        out[t] = s == 0x7fc00001u;""",
    "threads that return early do not block the barrier": FLOATS + """
        if (t >= 48) return;
        s[t] = in[t];
        __syncthreads();
        out[t] = s[47 - t];""",
    "a thread reads its own copy after its wait": """
        __shared__ alignas(16) float s[256];
        COPY(s + 4 * t, in + 4 * t);
        COMMIT; WAIT(0);
        out[t] = reinterpret_cast<volatile float*>(s)[4 * t];""",
    "copies of other threads read after wait and barrier": """
        __shared__ alignas(16) float s[256];
        COPY(s + 4 * t, in + 4 * t);
        COMMIT; WAIT(0);
        __syncthreads();
        out[t] = reinterpret_cast<volatile float*>(s)[255 - 4 * t];""",
    "the older of two groups has arrived": """
        __shared__ alignas(16) float s[512];
        COPY(s + 4 * t, in + 4 * t); COMMIT;
        COPY(s + 256 + 4 * t, in + 4 * t); COMMIT;
        WAIT(1);
        out[t] = reinterpret_cast<volatile float*>(s)[4 * t];""",
    "wait_all needs no commit": """
        __shared__ alignas(16) float s[256];
        COPY(s + 4 * t, in + 4 * t);
        asm volatile("cp.async.wait_all;" ::: "memory");
        out[t] = reinterpret_cast<volatile float*>(s)[4 * t];""",
}  # fmt: skip

# Kernel bodies with a race, and its kind.
WRONG = {
    "a warp that comes to the barrier of a loop less often, and ends": ("unequal-barriers", FLOATS + """
        float sum = 0;
        for (int i = t / 32; i < 5; i += 2) {
            s[t] = in[i * 32 + t % 32];
            __syncthreads();
            sum += s[t ^ 1];
            __syncthreads();
        }
        s[128 + t] = sum;
        __syncthreads();
        if (t < 32) out[t] = s[128 + t] + s[160 + t];"""),
    "half-word of another thread": ("read-after-write", """
        __shared__ volatile unsigned short s[64];
        s[t] = t;
        out[t] = s[t ^ 1];"""),
    "word written over bytes of other threads": ("write-after-write", """
        __shared__ volatile unsigned s[16];
        reinterpret_cast<volatile unsigned char*>(s)[t] = t;
        if (t % 4 == 0) s[t / 4] = 7;"""),
    "vector written over words that other threads read": ("write-after-read", """
        __shared__ float4 s[16];
        reinterpret_cast<volatile float*>(s)[t] = in[t];
        __syncthreads();
        out[t] = reinterpret_cast<volatile float*>(s)[63 - t];
        if (t < 16) s[t] = make_float4(in[t], 1, 2, 3);"""),
    "another warp's data after __syncwarp": ("read-after-write", FLOATS + """
        s[t] = in[t];
        __syncwarp();
        out[t] = s[t ^ 32];"""),
    "lockstep execution assumed": ("read-after-write", FLOATS + """
        s[t] = in[t];
        out[t] = s[t ^ 1];"""),
    "the other half of a warp after a half-warp __syncwarp": ("read-after-write", FLOATS + """
        s[t] = in[t];
        if (t % 32 < 16) { __syncwarp(0x0000ffffu); out[t] = s[t ^ 16]; }
        else             { __syncwarp(0xffff0000u); out[t] = s[t ^ 16]; }"""),
    "shift within one buffer": ("write-after-read", FLOATS + """
        s[t] = in[t];
        __syncthreads();
        const float next = s[(t + 1) % 64];
        s[t] = next;"""),
    "buffer of the previous step, in a loop": ("write-after-read", FLOATS + """
        float sum = 0;
        for (int step = 0; step < 3; ++step) {
            s[t] = in[t] * step;
            __syncthreads();
            sum += s[t ^ 33];
        }
        out[t] = sum;"""),
    "a third thread reads between two others, after __syncwarp": ("write-after-read", FLOATS + """
        if (t == 1) s[0] = in[0];
        __syncthreads();
        float got = 0;
        if (t < 32) got = s[0];
        __syncwarp();
        if (t == 10) got += s[0];
        if (t == 5) s[0] = 2;
        out[t] = got;"""),
    "different values written by one instruction": ("write-after-write", """
        __shared__ volatile float s;
        s = in[t];
        out[t] = 0;"""),
    "zeros of two signs": ("write-after-write", """
        __shared__ volatile float s;
        s = t == 7 ? -0.0f : 0.0f * in[0];
        out[t] = 0;"""),
    "counter read while other threads update it": ("read-after-write", """
        __shared__ int s;
        if (t == 0) s = 0;
        __syncthreads();
        atomicAdd(&s, t);
        out[t] = *const_cast<volatile int*>(&s);"""),
    "counter reset without a barrier": ("write-after-write", """
        __shared__ int s;
        s = 0;
        if (t == 3) *const_cast<volatile int*>(&s) = 1;
        atomicAdd(&s, t);"""),
    "an early return does not replace the barrier": ("read-after-write", FLOATS + """
        s[t] = in[t];
        if (t >= 48) return;
        out[t] = s[t + 8];"""),
    "copy read by its own thread before the wait": ("in-flight-copy", """
        __shared__ alignas(16) float s[256];
        reinterpret_cast<volatile float*>(s)[4 * t] = 0;
        COPY(s + 4 * t, in + 4 * t); COMMIT;
        out[t] = reinterpret_cast<volatile float*>(s)[4 * t];
        WAIT(0);"""),
    "store over a copy in flight": ("in-flight-copy", """
        __shared__ alignas(16) float s[256];
        COPY(s + 4 * t, in + 4 * t); COMMIT;
        reinterpret_cast<volatile float*>(s)[4 * t + 3] = 0;
        WAIT(0);"""),
    "copy committed after the wait": ("in-flight-copy", """
        __shared__ alignas(16) float s[256];
        reinterpret_cast<volatile float*>(s)[4 * t] = 0;
        COPY(s + 4 * t, in + 4 * t);
        WAIT(0);
        out[t] = reinterpret_cast<volatile float*>(s)[4 * t];
        COMMIT;"""),
    "copy of another thread read after the reader's own wait": ("read-after-write", """
        __shared__ alignas(16) float s[256];
        reinterpret_cast<volatile float*>(s)[4 * t] = 0;
        __syncthreads();
        COPY(s + 4 * t, in + 4 * t); COMMIT; WAIT(0);
        out[t] = reinterpret_cast<volatile float*>(s)[4 * (t ^ 32)];"""),
    "copy over data that other threads still read": ("write-after-read", """
        __shared__ alignas(16) float s[256];
        reinterpret_cast<volatile float*>(s)[4 * t] = in[t];
        __syncthreads();
        out[t] = reinterpret_cast<volatile float*>(s)[4 * (63 - t)];
        COPY(s + 4 * t, in + 4 * t); COMMIT; WAIT(0);"""),
    "two lanes copy to one address": ("in-flight-copy", """
        __shared__ alignas(16) float s[256];
        COPY(s + 4 * (t / 2), in + 4 * t); COMMIT; WAIT(0);"""),
}  # fmt: skip

COPIES = """
#define COPY(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" \\
    :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory")
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
"""


def _id(name: str) -> str:
    return name.replace(" ", "-")


@pytest.mark.parametrize("schedule", NAMES)
@pytest.mark.parametrize("name", RIGHT, ids=_id)
def test_synchronised_accesses_are_no_race(name: str, schedule: str, tmp_path: Path) -> None:
    outcome = run_body(tmp_path, RIGHT[name], schedule=schedule, before=COPIES)
    assert not outcome.hazards, "\n".join(map(str, outcome.hazards))


def _faultless(name: str) -> bool:
    """Whether the kernel runs in any schedule without a fault: nothing is read before it is written."""
    return "read-after-write" not in WRONG[name][0]


@pytest.mark.parametrize("name", WRONG, ids=_id)
def test_a_race_is_found_in_lockstep(name: str, tmp_path: Path) -> None:
    kind, body = WRONG[name]
    outcome = run_body(tmp_path, body, before=COPIES)
    assert kind in outcome.kinds, outcome.kinds
    first = outcome.hazards[0]
    assert "small.cu:" in first.first.where
    assert "small.cu:" in first.second.where


@pytest.mark.parametrize("schedule", NAMES)
@pytest.mark.parametrize("name", [name for name in WRONG if _faultless(name)], ids=_id)
def test_a_race_is_found_in_every_schedule(name: str, schedule: str, tmp_path: Path) -> None:
    kind, body = WRONG[name]
    seen = run_body(tmp_path, body, schedule=schedule, before=COPIES).kinds
    # A read before a write in one schedule is a write before a read in another.
    assert seen & ({kind, "read-after-write"} if kind == "write-after-read" else {kind}), seen


def test_the_advice_matches_the_threads_that_race(tmp_path: Path) -> None:
    """Pairs within one warp have lower thread numbers, but a pair across two warps decides what is needed."""
    across = run_body(tmp_path, FLOATS + "s[t] = in[t];\nout[t] = s[63 - t] + s[t ^ 1];")
    assert "a __syncthreads() must come between them" in str(across.hazards[0])
    within = run_body(tmp_path, FLOATS + "s[t] = in[t];\nout[t] = s[t ^ 1];")
    assert "__syncwarp() or a barrier must come between them" in str(within.hazards[0])


def test_both_accesses_are_named(tmp_path: Path) -> None:
    (hazard,) = run_body(tmp_path, FLOATS + "s[t] = in[t];\nout[t] = s[t ^ 32];", threads=64).hazards
    text = str(hazard)
    assert text.startswith("read-after-write race on shared address 0x")
    assert "write at small.cu:4 by thread (" in text
    assert "then read at small.cu:5 by thread (" in text
    assert "st.volatile.shared.f32" in hazard.first.text


@pytest.mark.parametrize("schedule", NAMES)
def test_each_block_has_its_own_shared_memory(schedule: str, tmp_path: Path) -> None:
    body = FLOATS + "s[t] = in[t] + blockIdx.x;\n__syncthreads();\nout[blockIdx.x * blockDim.x + t] = s[39 - t];"
    outcome = run_body(tmp_path, body, threads=40, blocks=3, schedule=schedule)
    assert not outcome.hazards
    assert outcome.out.reshape(3, 40)[:, 0].tolist() == [40, 41, 42]


def test_a_partial_last_warp_is_a_separate_warp(tmp_path: Path) -> None:
    ordered = FLOATS + "s[t] = in[t];\n__syncwarp();\nout[t] = s[t ^ 1];"
    assert not run_body(tmp_path, ordered, threads=40).hazards
    across = FLOATS + "s[t] = in[t];\n__syncwarp();\nout[t] = s[t < 32 ? t : t - 8];"
    assert run_body(tmp_path, across, threads=40).kinds == {"read-after-write"}
