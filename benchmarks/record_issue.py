"""Record how a scheduler chooses among its warps, and what register banks and the reuse cache cost.

    python benchmarks/record_issue.py OUTPUT.json [--patched FOLDER]

micro/issue.cu is compiled once; then registers, reuse flags, stall counts and yield bits of its loops are rewritten in
the cubin, so that every variant is the same loop but for one thing. Each runs with 1, 2, 4 and 8 warps a sub-core.
``ends``: cycles from the first warp's start to the end of each warp of a sub-core, in the order of their numbers (mean
of four sub-cores). ``cycles``: the last end for each instruction that the sub-core issued.

Needs a GPU of sm_90 and nvcc. With ``--patched`` the cubins are written to a folder, and nothing runs.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).parent / "micro" / "issue.cu"
ROUNDS = 32
FFMA, HMMA = 0x223, 0x23C
_CONTROL = 105 - 64  # bits of the upper half of an instruction
_HOLD = 1 << _CONTROL + 4
_REUSE = _CONTROL + 17

Pattern = Callable[[int, list[int], list[int]], tuple[int, int, int, int, int]]
"""From an instruction's number and the even and odd registers to its target, its three sources and reuse flags."""


class Variant(NamedTuple):
    name: str
    kernel: str
    pattern: Pattern | None = None
    stall: int = 0  # 0: as compiled
    hold: bool | None = None  # the yield bit; None: as compiled


def _fixed(a: str, b: str, sums: str, reuse: int) -> Pattern:
    """a and b always the same registers, of the named parity; ``sums``: parities of the accumulators in turn."""

    def made(n: int, even: list[int], odd: list[int]) -> tuple[int, int, int, int, int]:
        first = even[0] if a == "e" else odd[0]
        second = even[1] if b == "e" else odd[1]
        kind = sums[n % len(sums)]
        mine = (even if kind == "e" else odd)[2:]
        c = mine[n // len(sums) % len(mine)]
        return c, first, second, c, reuse

    return made


def _outer(rows: int, kept: bool) -> Pattern:
    """The outer product of a column of ``rows`` and a row of as many; b is kept while a column is multiplied."""

    def made(n: int, even: list[int], odd: list[int]) -> tuple[int, int, int, int, int]:
        registers = sorted(even + odd)
        column, row, sums = registers[:rows], registers[rows : 2 * rows], registers[2 * rows :]
        i, j = n % rows, n // rows % rows
        c = sums[(j * rows + i) % len(sums)]
        return c, column[i], row[j], c, 2 if kept and i < rows - 1 else 0

    return made


VARIANTS = (
    Variant("a even, b odd, sums in turn", "ffma_loop", _fixed("e", "o", "eo", 0), 1, True),
    Variant("a even, b odd, sums in turn; a kept", "ffma_loop", _fixed("e", "o", "eo", 1), 1, True),
    Variant("a even, b odd, sums in turn; a, b kept", "ffma_loop", _fixed("e", "o", "eo", 3), 1, True),
    Variant("a, b even, sums odd", "ffma_loop", _fixed("e", "e", "o", 0), 1, True),
    Variant("a, b even, sums odd; a kept", "ffma_loop", _fixed("e", "e", "o", 1), 1, True),
    Variant("all even", "ffma_loop", _fixed("e", "e", "e", 0), 1, True),
    Variant("all even; a kept", "ffma_loop", _fixed("e", "e", "e", 1), 1, True),
    Variant("all even; a, b kept", "ffma_loop", _fixed("e", "e", "e", 3), 1, True),
    Variant("outer product of 6", "ffma_loop", _outer(6, False), 1, True),
    Variant("outer product of 6; b kept", "ffma_loop", _outer(6, True), 1, True),
    Variant("a, b kept, yields", "ffma_loop", _fixed("e", "o", "eo", 3), 1, False),
    Variant("all even; a, b kept, yields", "ffma_loop", _fixed("e", "e", "e", 3), 1, False),
    Variant("a, b kept, stall 2", "ffma_loop", _fixed("e", "o", "eo", 3), 2, True),
    Variant("a, b kept, stall 2, yields", "ffma_loop", _fixed("e", "o", "eo", 3), 2, False),
    Variant("a, b kept, stall 4", "ffma_loop", _fixed("e", "o", "eo", 3), 4, True),
    Variant("a, b kept, stall 4, yields", "ffma_loop", _fixed("e", "o", "eo", 3), 4, False),
    Variant("mma.sync m16n8k16", "hmma_loop"),
    Variant("mma.sync m16n8k16, holds", "hmma_loop", None, 0, True),
    Variant("mma.sync m16n8k16, yields", "hmma_loop", None, 0, False),
    Variant("mma.sync m16n8k16, stall 2", "hmma_loop", None, 2, True),
)  # fmt: skip


def compiled() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "issue.cubin"
        code = "arch=compute_90a,code=sm_90a"
        subprocess.run(["nvcc", "-cubin", "-O3", "-std=c++17", "-gencode", code, str(SOURCE), "-o", str(cubin)],
                       check=True)  # fmt: skip
        return cubin.read_bytes()


def section(image: bytes, name: str) -> tuple[int, int]:
    """Where a section of an ELF file begins, and its size."""
    (headers,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", image, headers + n * size) for n in range(count)]
    texts = rows[names][4]
    for row in rows:
        begin = texts + row[0]
        if image[begin : image.index(b"\0", begin)].decode() == name:
            return row[4], row[5]
    raise SystemExit(f"the cubin has no section {name}")


def instructions(image: bytes, kernel: str) -> Iterator[tuple[int, int, int]]:
    """(offset, lower half, upper half) of every instruction of a kernel."""
    begin, size = section(image, f".text.{kernel}")
    for at in range(begin, begin + size, 16):
        low, high = struct.unpack_from("<QQ", image, at)
        yield at, low, high


def patched(image: bytes, variant: Variant) -> tuple[bytes, int]:
    """The cubin with one variant's loop, and how many instructions of interest a round of it has."""
    opcode = FFMA if variant.kernel == "ffma_loop" else HMMA
    loop = [(at, low, high) for at, low, high in instructions(image, variant.kernel) if low & 0xFFF == opcode]
    targets = {low >> 16 & 255 for _, low, _ in loop}
    even, odd = (sorted(r for r in targets if r % 2 == parity) for parity in (0, 1))
    found = bytearray(image)
    for n, (at, low, high) in enumerate(loop):
        if variant.pattern is not None:
            d, a, b, c, reuse = variant.pattern(n, even, odd)
            low = low & ~0xFFFFFF0000 | d << 16 | a << 24 | b << 32
            high = high & ~0xFF & ~(15 << _REUSE) | c | reuse << _REUSE
        if variant.stall:
            high = high & ~(15 << _CONTROL) | variant.stall << _CONTROL
        if variant.hold is not None:
            high = high | _HOLD if variant.hold else high & ~_HOLD
        struct.pack_into("<QQ", found, at, low, high)
    return bytes(found), len(loop)


def timed(device: Any, image: bytes, kernel: str, warps: int, places: tuple[int, int]) -> list[list[int]]:
    """Begin and end of every warp of one block."""
    import numpy as np

    from gemmsmith.run.cuda import checked, driver_bindings

    cu = driver_bindings()
    module = checked(cu.cuModuleLoadData(image), "loading a variant")
    function = checked(cu.cuModuleGetFunction(module, kernel.encode()), "finding the loop")
    given = ((*places, ROUNDS), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
    for _ in range(3):
        checked(cu.cuLaunchKernel(function, 1, 1, 1, 32 * warps, 1, 1, 0, 0, given, 0), "running a variant")
    checked(cu.cuCtxSynchronize(), "running a variant")
    found: list[list[int]] = device.read(places[1], 16 * warps).view(np.int64).reshape(-1, 2).tolist()
    checked(cu.cuModuleUnload(module), "unloading")
    return found


def rows(image: bytes) -> Iterator[dict[str, Any]]:
    from gemmsmith.run.cuda import cuda_device

    device = cuda_device()
    with device.current():
        places = device.allocate(4096), device.allocate(4096)
        for variant in VARIANTS:
            code, count = patched(image, variant)
            for each in (1, 2, 4, 8):
                if variant.kernel == "hmma_loop" and each == 8:
                    continue
                times = timed(device, code, variant.kernel, 4 * each, places)
                ends = [0.0] * each
                for part in range(4):
                    mine = times[part::4]
                    begin = min(one[0] for one in mine)
                    for n, (_, end) in enumerate(mine):
                        ends[n] += (end - begin) / 4
                yield {"what": variant.name, "warps": each, "cycles": round(max(ends) / (count * ROUNDS * each), 3),
                       "ends": [round(end) for end in ends]}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--patched", default="")
    given = parser.parse_args()
    image = compiled()
    if given.patched:
        for n, variant in enumerate(VARIANTS):
            (Path(given.patched) / f"{n}.cubin").write_bytes(patched(image, variant)[0])
        return 0
    from gemmsmith.run.cuda import cuda_device

    version = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[-2]
    head = {"what": "how a scheduler chooses among warps; register banks and the reuse cache",
            "gpu": cuda_device().name, "compiler": version,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "command": "python benchmarks/record_issue.py OUTPUT.json"}  # fmt: skip
    lines = ",\n".join("  " + json.dumps(row) for row in rows(image))
    Path(given.output).write_text(
        f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
