"""cvt: conversions between integer and floating-point types, with the rounding PTX names."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim import conversions, rounding
from gemmsmith.sim.instructions.lanewise import CONVERT, lanewise
from gemmsmith.sim.types import DTYPES, INTEGERS

_WHOLE = f"u8 s8 {INTEGERS}"

RECORDS = (
    lanewise("cvt.to.from", "from -> to", where={"to": _WHOLE, "from": _WHOLE},
             choose=lambda m: conversions.integer_to_integer(DTYPES[m["to"]])),
    lanewise("cvt.sat.to.from", "from -> to", where={"to": _WHOLE, "from": _WHOLE},
             choose=lambda m: conversions.saturating(DTYPES[m["to"]], DTYPES[m["from"]])),
    lanewise("cvt.mode.to.from", "from -> to", counts=CONVERT,
             where={"mode": " ".join(conversions.TO_INTEGER), "to": "u32 s32 u64 s64", "from": "f32 f64"},
             choose=lambda m: conversions.float_to_integer(m["mode"], DTYPES[m["to"]], DTYPES[m["from"]])),
    lanewise("cvt.rn.to.from", "from -> to", where={"to": "f32 f64", "from": _WHOLE}, counts=CONVERT,
             choose=lambda m: conversions.integer_to_float(DTYPES[m["to"]])),
    lanewise("cvt.f32.f16", "f16 -> f32", lambda a: rounding.canonical32(np.asarray(a).astype(np.float32)),
             counts=CONVERT),
    lanewise("cvt.f32.bf16", "bf16 -> f32", conversions.from_bfloat, counts=CONVERT),
    lanewise("cvt.f64.from", "from -> f64", lambda a: rounding.quiet64(np.asarray(a).astype(np.float64)),
             where={"from": "f16 f32"}, counts=CONVERT),
    lanewise("cvt.rn.f32.f64", "f64 -> f32", conversions.double_to_single, counts=CONVERT),
    lanewise("cvt.rn.f16.f32", "f32 -> f16", lambda a: rounding.to_half(np.asarray(a)), counts=CONVERT),
    lanewise("cvt.rn.bf16.f32", "f32 -> bf16", lambda a: rounding.to_bfloat(np.asarray(a)), counts=CONVERT),
    lanewise("cvt.rn.f16x2.f32", "f32, f32 -> f16x2", conversions.pair(rounding.to_half), counts=CONVERT),
    lanewise("cvt.rn.bf16x2.f32", "f32, f32 -> bf16x2", conversions.pair(rounding.to_bfloat), counts=CONVERT),
    lanewise("cvt.rna.tf32.f32", "f32 -> b32", lambda a: rounding.to_tf32(np.asarray(a), away=True), counts=CONVERT),
    lanewise("cvt.rn.tf32.f32", "f32 -> b32", lambda a: rounding.to_tf32(np.asarray(a), away=False), counts=CONVERT),
)  # fmt: skip
