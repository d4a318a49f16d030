"""Launches of one warp with one matrix instruction, for which a profiler recorded the counts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensor_core_kernels as kernels
from tensor_core_cases import Random
from tensor_core_kernels import FLOAT_FORMS, INTEGER_FORMS, MATRIX_FORMS, MORE_FORMS, SHARED_BYTES, Matrices
from tensor_core_warps import MORE_WARP_FORMS, WARP_FORMS, Warp, warp_source

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Device, Launch


def patterns() -> list[tuple[str, list[int]]]:
    """(name, byte offset of each lane's row): those that kernels have, and random ones."""
    lane = np.arange(32)
    named = {"same row": 0 * lane, "pairs": lane // 2 * 16, "quads": lane // 4 * 16, "one matrix": lane % 8 * 16,
             "two rows": lane % 2 * 16, "reversed": (31 - lane) * 16}  # fmt: skip
    for pitch in (16, 32, 48, 64, 80, 96, 112, 128, 144, 192, 256, 272, 512):
        named[f"rows {pitch} apart"] = lane * pitch
    for pitch in (32, 64, 80, 128, 144):
        named[f"16 rows {pitch} apart, two columns"] = lane % 16 * pitch + lane // 16 * 16
        named[f"8 rows {pitch} apart, four columns"] = lane % 8 * pitch + lane // 8 * 16
    named["swizzled rows of 128"] = lane % 16 * 128 + ((lane // 16) ^ (lane % 8)) * 16
    named["swizzled rows of 64"] = lane % 16 * 64 + ((lane // 16) ^ (lane // 2 % 4)) * 16
    named["equal matrices 128 apart"] = lane % 8 * 128
    named["equal matrices 144 apart"] = lane % 8 * 144
    random = Random("patterns")
    for i in range(16):
        span = (8, 16, 64, 1024)[i % 4]
        named[f"random in {span} ({i})"] = random.integers(0, span - 1, 32) * 16
    return [(name, [int(x) for x in at]) for name, at in named.items()]


COUNTED = (*(m for m in MATRIX_FORMS if not m.transposed), *(m for m in MATRIX_FORMS if m.transposed and m.count == 4))


def counted_patterns(form: Matrices) -> list[tuple[str, list[int]]]:
    """All patterns for four matrices; for fewer matrices, those that differ."""
    return patterns() if form.count == 4 and not form.transposed else patterns()[::2]


# One form of each that ptxas makes the same machine instructions of.
_ALIKE = (("u4", "u4"), ("s4", "u4"))
COUNTED_FORMS = tuple(f for f in MORE_FORMS if not f.saturate and f.layouts == "row.col" and (f.a, f.b) not in _ALIKE)
COUNTED_WARP_FORMS = tuple(f for f in MORE_WARP_FORMS if not f.saturate)

PITCHES = (16, 24, 32, 40, 64, 72, 136)


def warp_patterns() -> list[tuple[str, str, str, int]]:
    """(kernel, instruction, which, pitch in elements) of wmma loads and stores."""
    tile = Warp(16, 16, 16, "f16")
    return [
        (f"wmma_{which}_{layout}", tile.load(which, layout) if which != "d" else tile.store(layout), which, pitch)
        for which in "abd" for layout in ("row", "col") for pitch in PITCHES if which != "d" or pitch % 4 == 0
    ]  # fmt: skip


def warp_pattern_source(entry: str, instruction: str, which: str) -> str:
    names = "{" + ", ".join(f"%{i + 2}" for i in range(8)) + "}"
    head = f"""
extern "C" __global__ void {entry}(const unsigned* in, unsigned* out, int pitch) {{
    extern __shared__ unsigned memory[];
    unsigned where = (unsigned)__cvta_generic_to_shared(memory);"""
    if which == "d":
        inputs = ", ".join(f'"f"(__uint_as_float(in[{32 * i} + threadIdx.x]))' for i in range(8))
        return f"""{head}
    asm volatile("{instruction} [%0], {names}, %1;" :: "r"(where), "r"(pitch), {inputs} : "memory");
}}"""
    registers = "{" + ", ".join(f"%{i}" for i in range(8)) + "}"
    stores = " ".join(f"out[{32 * i} + threadIdx.x] = r{i};" for i in range(8))
    outs = ", ".join(f'"=r"(r{i})' for i in range(8))
    return f"""{head}
    unsigned {", ".join(f"r{i}" for i in range(8))};
    asm volatile("{instruction} {registers}, [%8], %9;" : {outs} : "r"(where), "r"(pitch) : "memory");
    {stores}
}}"""


@dataclass(frozen=True)
class Counted:
    """One launch: kernel, the offsets of a matrix's rows or the pitch of a tile, and what the record says of it."""

    source: str
    entry: str
    about: dict[str, Any]

    @property
    def name(self) -> tuple[str, str]:
        return self.about["form"], self.about["pattern"]


def launches() -> list[Counted]:
    """Every launch that is counted, in order."""
    result = []
    for form in COUNTED:
        source = kernels.matrix_source(form, fill=False, entry=form.name)
        for name, at in counted_patterns(form):
            result.append(Counted(source, form.name, {"form": form.opcode, "pattern": name, "offsets": at}))
    for entry, instruction, which, pitch in warp_patterns():
        about = {"form": instruction, "pattern": f"pitch {pitch}", "pitch": pitch}
        result.append(Counted(warp_pattern_source(entry, instruction, which), entry, about))
    for number, mma in enumerate((*FLOAT_FORMS, *INTEGER_FORMS, *COUNTED_FORMS)):
        source = kernels.mma_source(mma).replace(" one(", f" mma_{number}(")
        result.append(Counted(source, f"mma_{number}", {"form": mma.opcode, "pattern": "one instruction"}))
    for number, warp in enumerate((*WARP_FORMS, *COUNTED_WARP_FORMS)):
        source = warp_source(warp).replace(" one(", f" wmma_{number}(")
        result.append(Counted(source, f"wmma_{number}", {"form": warp.mma, "pattern": "one tile"}))
    return result


def launch_all(device: Device, arch: str, after: Callable[[Counted], None] = lambda _: None,
               known: Collection[tuple[str, str]] = ()) -> None:  # fmt: skip
    """Run every launch that is not ``known``, one warp each; ``after`` is called when it is done."""
    big = device.allocate(1 << 20)
    device.write(big, np.zeros(1 << 20, np.uint8))
    offsets = device.allocate(128)
    pointer, at = big.to_bytes(8, "little"), offsets.to_bytes(8, "little")
    loaded: dict[str, Any] = {}
    for item in launches():
        if item.name in known:
            continue
        if "offsets" in item.about:
            device.write(offsets, np.array(item.about["offsets"], np.int32).view(np.uint8))
            arguments: tuple[bytes, ...] = (pointer, at, pointer, pointer)
        elif "pitch" in item.about:
            arguments = (pointer, pointer, item.about["pitch"].to_bytes(4, "little"))
        else:
            arguments = (pointer,) * 4
        if item.entry not in loaded:
            loaded[item.entry] = device.load(kernels.compiled(item.source, arch, item.entry))
        device.launch(loaded[item.entry], Launch(Geometry((1, 1, 1), (32, 1, 1), smem=SHARED_BYTES), arguments))
        device.synchronize()
        after(item)
