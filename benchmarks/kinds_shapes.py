"""The shapes of kinds_against_cublas.py: few rows or columns, fp32 in three precisions, unaligned and batched products.

Each kind has random shapes, by seed, and named ones. Seeds below 100 may be fitted to, others only test.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import islice

from shape_rig import Shape

_LAYOUTS = ("NN", "NT", "TN", "TT")
_MOST_BYTES = 2e9  # of operands and outputs of a random shape
_MOST_FLOPS = {"bf16": 2e12, "fp32": 3e11}


def _listed(text: str, layout: str = "NT", dtype: str = "bf16", precision: str = "") -> list[Shape]:
    """From words such as ``8x18944x3584`` and ``8x18944x3584/NN``."""
    found = []
    for word in text.split():
        extents, _, other = word.partition("/")
        m, n, k = map(int, extents.split("x"))
        found.append(Shape(m, n, k, other or layout, dtype, dtype, origin="named", precision=precision))
    return found


def _batched(text: str) -> list[Shape]:
    """From words such as ``16*64x64x64/NN`` and, with one B for all, ``16*64x64x64/NN/1``."""
    found = []
    for word in text.split():
        batch, _, rest = word.partition("*")
        extents, layout, *one = rest.split("/")
        m, n, k = map(int, extents.split("x"))
        found.append(Shape(m, n, k, layout, batch=int(batch), origin="named", shared_b=bool(one)))
    return found


_NARROW = (
    "8x18944x3584 24x9216x4608 1x28672x8192 16x8192x8192 32x13824x5120 64x14336x4096 48x28672x8192 "
    "4x12288x4096 16x11008x4096/NN 40x6144x16384 64x8192x8192 56x4096x14336 12x32000x4096 "
    "28672x16x4096/NN 14336x32x4096/TN 5x5120x20480/NN 64x28672x4096/NN 8x4096x1024 16x5120x5120 "
    "1x4096x4096 64x2048x2048 33x7168x3584 32x3072x768 64x4096x4096/NN 48x1024x8192 2x11008x2048 "
    "64x512x16384 4096x24x2048/NN 17x2560x2560/TN 64x6144x4096"
)
_FP32 = (
    "64x8192x8192/NN 64x8192x8192/NT 10000x100x1000/NN 1000x1000x10000/NN 50000x256x784/NN "
    "16x4096x4096/NT 16x8192x8192/NN 32x11008x4096/NT 128x4096x4096/NT 256x4096x4096/NN 128x14336x4096/NT "
    "256x8192x2048/TN 200x5120x5120/NT 20000x64x512/NN 8192x128x1024/TT 100x3000x3000/NN 512x512x8192/NT "
    "300x2304x768/NN 4096x4096x4096/NN 2048x2048x2048/NT 24x4096x11008/NT 96x96x16384/NT "
    "1024x1024x1024/NN 3000x200x200/NN 7x4096x4096/NN 500x10x5000/NN 512x512x512/NN 256x256x256/NT "
    "64x1024x1024/NT 33x128x4096/NN 16x1024x1024/NN 4096x64x64/NN 1500x300x300/TN 2000x2000x2000/NN "
    "1001x257x999/NN 33x4097x4097/NT 5000x77x1023/NN 130x9999x513/NN"
)
_FAST = (
    "2048x2048x2048 4096x4096x4096 8192x8192x8192 4096x4096x4096/NT 6000x5000x4000 8192x2048x8192/TN "
    "3072x12288x3072/NT 4097x4095x4093 1024x1024x1024 16384x1024x4096/NT"
)
_IEEE = (
    "1024x1024x1024 2048x2048x2048 4096x4096x4096 8192x8192x8192 64x4096x4096 128x128x16384 512x4096x1024 "
    "3000x3000x3000 16x4096x4096 1000x1000x10000 4097x4095x4093 300x300x300 200x2000x2000/NT 5000x77x1023 "
    "64x8192x8192/NT 2048x2048x2048/TN 6000x5000x4000/NT"
)
_UNALIGNED = (
    "50257x1023x77 50257x1023x77/NN 9999x9999x999/NN 9999x9999x999 512x50257x768 1023x1021x1019/NN "
    "4097x4095x4093/NN 30001x301x33/NN 777x12345x111/TN 2047x4095x65/NT 100x10001x57/NN 20001x20001x31/NT "
    "3001x3001x101/TT 127x129x9999/NN 8191x513x255/TN 50257x16x768/NN 15x30522x1024/NT 6145x1537x3071/NN "
    "999x64x9999/TT 5001x5001x5001/TN"
)
_BATCHED = (
    "16*64x64x64/NN 128*64x64x64/NT 1000*64x64x64/NN 16*128x128x128/NN 96*128x128x64/NT "
    "1000*128x128x128/NN 64*256x256x256/NN 512*256x256x64/NT 256*512x512x64/NT 64*512x512x512/NN "
    "16*1024x1024x1024/NT 192*1024x1024x64/NT 192*1024x64x1024/NN 1000*256x256x256/NN 32*197x197x64/NT "
    "384*197x64x197/NN 100*64x1024x128/NN 128*128x128x512/NN/1 64*512x256x512/NT/1 300*100x200x300/NN "
    "40*300x300x300/TN 768*64x64x512/NN 24*384x384x384/NT"
)


def shapes_of(kind: str, seed: int, count: int) -> list[Shape]:
    """``count`` random shapes of a kind, then the named ones."""
    drawn = _drawn(random.Random(f"{kind} {seed}"), _RANDOM[kind], f"random, seed {seed}")
    return list(dict.fromkeys([*islice(drawn, count), *_named(kind)]))


def _named(kind: str) -> list[Shape]:
    if kind == "narrow":
        return [*_listed(_NARROW), *_listed("32x5120x5120", dtype="fp16")]
    if kind == "batched":
        return _batched(_BATCHED)
    if kind == "unaligned":
        return _listed(_UNALIGNED)
    if kind == "ieee-narrow":
        return []
    text, precision = {"fp32": (_FP32, ""), "fp32-fast": (_FAST, "fp32-fast"), "ieee": (_IEEE, "ieee")}[kind]
    return _listed(text, "NN", "fp32", precision)


Draw = Callable[[random.Random, str], Shape]


def _drawn(dice: random.Random, draw: Draw, origin: str) -> Iterator[Shape]:
    while True:
        shape = draw(dice, origin)
        p = shape.problem
        outputs = p.batch * p.m * p.n * p.out_dtype.itemsize
        if 1e6 <= p.flops <= _MOST_FLOPS.get(shape.dtype, 2e12) and shape.operand_bytes + outputs <= _MOST_BYTES:
            yield shape


def _extent(dice: random.Random, least: int, most: int, step: int = 1) -> int:
    return max(step, round(math.exp(dice.uniform(math.log(least), math.log(most))) / step) * step)


def _narrow(dice: random.Random, origin: str) -> Shape:
    few, many, k = _extent(dice, 1, 64), _extent(dice, 1000, 40_000, 8), _extent(dice, 256, 20_000, 8)
    layout, wide = dice.choice(_LAYOUTS), dice.random() < 0.75
    if (layout[0] == "T") if wide else (layout[1] == "N"):  # then few rows are rows of memory, on 16 bytes
        few = max(8, few // 8 * 8)
    if not wide:
        few = max(8, few // 8 * 8)  # rows of C too
    m, n = (few, many) if wide else (many, few)
    dtype = dice.choice(("bf16", "fp16"))
    return Shape(m, n, k, layout, dtype, dtype, origin=origin)


def _unaligned(dice: random.Random, origin: str) -> Shape:
    while True:
        m, n, k = (_extent(dice, 1, 20_000) for _ in range(3))
        shape = Shape(m, n, k, dice.choice(_LAYOUTS), origin=origin)
        if shape.kind == "unaligned":
            return shape


def _several(dice: random.Random, origin: str) -> Shape:
    m, n, k = (_extent(dice, 64, 1024, 8) for _ in range(3))
    return Shape(m, n, k, dice.choice(_LAYOUTS), batch=_extent(dice, 16, 1000), origin=origin,
                 shared_b=dice.random() < 0.25)  # fmt: skip


def _fp32(precision: str, least: int) -> Draw:
    def draw(dice: random.Random, origin: str) -> Shape:
        step = 4 if dice.random() < 0.7 else 1
        m, n, k = (_extent(dice, least, 20_000, step) for _ in range(3))
        layout = dice.choice(("NN", "NN", "NT", "NT", "TN", "TT"))
        return Shape(m, n, k, layout, "fp32", "fp32", origin=origin, precision=precision)

    return draw


def _narrow_fp32(dice: random.Random, origin: str) -> Shape:
    """Up to 16 columns, or up to 8 rows, of CUDA cores; half of them with rows that start on 16 bytes."""
    few, step = dice.randint(1, 16), dice.choice((1, 4))
    many, k = _extent(dice, 500, 20_000, step), _extent(dice, 16, 20_000, step)
    m, n = (many, few) if dice.random() < 0.6 else (min(few, 8), many)
    return Shape(m, n, k, dice.choice(_LAYOUTS), "fp32", "fp32", origin=origin, precision="ieee")


_RANDOM: dict[str, Draw] = {
    "narrow": _narrow, "fp32": _fp32("", 1), "fp32-fast": _fp32("fp32-fast", 1000), "ieee": _fp32("ieee", 1),
    "ieee-narrow": _narrow_fp32, "unaligned": _unaligned, "batched": _several,
}  # fmt: skip
KINDS = tuple(_RANDOM)
