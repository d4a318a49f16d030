"""The cases of kinds_against_cublas.py: few rows or columns, fp32, unaligned and batched products."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.problem import Problem, dtype_named


@dataclass(frozen=True)
class Case:
    """``shared_b``: one B for the whole batch. ``out``: the type of C, that of the operands where empty."""

    kind: str
    m: int
    n: int
    k: int
    layout: str = "NT"
    dtype: str = "bf16"
    precision: str = ""
    batch: int = 1
    shared_b: bool = False
    out_type: str = ""

    @property
    def out(self) -> str:
        return self.out_type or self.dtype

    @property
    def problem(self) -> Problem:
        return Problem(self.m, self.n, self.k, dtype_named(self.dtype), dtype_named(self.out), batch=self.batch,
                       trans_a=self.layout[0] == "T", trans_b=self.layout[1] == "T",
                       stride_b=0 if self.shared_b else -1)  # fmt: skip

    @property
    def bytes(self) -> int:
        """Of the operands."""
        p = self.problem
        return (p.copies[0] * p.m + p.copies[1] * p.n) * p.k * p.dtype.itemsize

    def __str__(self) -> str:
        many = f"{self.batch} of " if self.batch > 1 else ""
        words = [self.kind, f"{many}{self.m}x{self.n}x{self.k}", self.layout, self.dtype]
        words += [f"to {self.out}"] if self.out != self.dtype else []
        return " ".join([*words, *([self.precision] if self.precision else []), *(["one B"] if self.shared_b else [])])


def _cases(kind: str, text: str, **fields: object) -> tuple[Case, ...]:
    """From words such as ``8x18944x3584`` and ``8x18944x3584/NN``."""
    found = []
    for word in text.split():
        extents, _, layout = word.partition("/")
        m, n, k = map(int, extents.split("x"))
        found.append(Case(kind, m, n, k, layout or str(fields.get("layout", "NT")),
                          **{name: value for name, value in fields.items() if name != "layout"}))  # type: ignore[arg-type]  # fmt: skip
    return tuple(found)


def _batched(text: str) -> tuple[Case, ...]:
    """From words such as ``16*64x64x64/NN`` and, with one B for all, ``16*64x64x64/NN/1``."""
    found = []
    for word in text.split():
        batch, _, rest = word.partition("*")
        extents, layout, *one = rest.split("/")
        m, n, k = map(int, extents.split("x"))
        found.append(Case("batched", m, n, k, layout, batch=int(batch), shared_b=bool(one)))
    return tuple(found)


KINDS: dict[str, tuple[Case, ...]] = {
    "narrow": (
        *_cases("narrow", "8x18944x3584 24x9216x4608 1x28672x8192 16x8192x8192 32x13824x5120 64x14336x4096 "
            "48x28672x8192 "
            "4x12288x4096 16x11008x4096/NN 40x6144x16384 64x8192x8192 56x4096x14336 12x32000x4096 "
            "28672x16x4096/NN 14336x32x4096/TN 5x5120x20480/NN 64x28672x4096/NN"),
        *_cases("narrow", "8x4096x1024 16x5120x5120 1x4096x4096 64x2048x2048 33x7168x3584 32x3072x768 64x4096x4096/NN "
            "48x1024x8192 2x11008x2048 64x512x16384 4096x24x2048/NN 17x2560x2560/TN 64x6144x4096"),
        *_cases("narrow", "32x5120x5120", dtype="fp16"),
    ),
    "fp32": (
        *_cases("fp32", "64x8192x8192/NN 64x8192x8192/NT 10000x100x1000/NN 1000x1000x10000/NN 50000x256x784/NN "
            "16x4096x4096/NT 16x8192x8192/NN 32x11008x4096/NT 128x4096x4096/NT 256x4096x4096/NN "
            "128x14336x4096/NT 256x8192x2048/TN 200x5120x5120/NT 20000x64x512/NN 8192x128x1024/TT "
            "100x3000x3000/NN 512x512x8192/NT 300x2304x768/NN 4096x4096x4096/NN 2048x2048x2048/NT "
            "24x4096x11008/NT 96x96x16384/NT 1024x1024x1024/NN 3000x200x200/NN 7x4096x4096/NN "
            "500x10x5000/NN",
                dtype="fp32"),
        *_cases("fp32", "512x512x512/NN 256x256x256/NT 64x1024x1024/NT 33x128x4096/NN 16x1024x1024/NN 4096x64x64/NN "
            "1500x300x300/TN 2000x2000x2000/NN 1001x257x999/NN 33x4097x4097/NT 5000x77x1023/NN "
            "130x9999x513/NN", dtype="fp32"),
    ),
    "unaligned": _cases("unaligned", "50257x1023x77 50257x1023x77/NN 9999x9999x999/NN 9999x9999x999 512x50257x768 "
            "1023x1021x1019/NN "
            "4097x4095x4093/NN 30001x301x33/NN 777x12345x111/TN 2047x4095x65/NT 100x10001x57/NN "
            "20001x20001x31/NT 3001x3001x101/TT 127x129x9999/NN 8191x513x255/TN 50257x16x768/NN "
            "15x30522x1024/NT 6145x1537x3071/NN 999x64x9999/TT 5001x5001x5001/TN"),
    "batched": _batched("16*64x64x64/NN 128*64x64x64/NT 1000*64x64x64/NN 16*128x128x128/NN 96*128x128x64/NT "
            "1000*128x128x128/NN 64*256x256x256/NN 512*256x256x64/NT 256*512x512x64/NT 64*512x512x512/NN "
            "16*1024x1024x1024/NT 192*1024x1024x64/NT 192*1024x64x1024/NN 1000*256x256x256/NN "
            "32*197x197x64/NT 384*197x64x197/NN 100*64x1024x128/NN 128*128x128x512/NN/1 "
            "64*512x256x512/NT/1 300*100x200x300/NN 40*300x300x300/TN 768*64x64x512/NN 24*384x384x384/NT"),
    "ieee": _cases("ieee", "1024x1024x1024 2048x2048x2048 4096x4096x4096 8192x8192x8192 64x4096x4096 128x128x16384 "
            "512x4096x1024 3000x3000x3000 16x4096x4096 1000x1000x10000 4097x4095x4093",
                   layout="NN", dtype="fp32", precision="ieee"),
}  # fmt: skip
