"""The ladder's specifications: order, published configurations, refusals with their arithmetic, launch geometry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemmsmith.errors import ConfigError, UnknownKernelError, UnsupportedError
from gemmsmith.kernel.config import Preset
from gemmsmith.kernel.signature import ROLES
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts, rung_named, rungs
from gemmsmith.problem import BF16, FP16, FP32, INT8, INT32, MAX_EXTENT, OUTPUTS, TF32, Problem, ceil_div

NAMES = [
    "naive", "coalesced", "shared_tile", "register_block", "block_tile_1d", "block_tile_2d", "vectorized", "padded",
    "rectangular", "warp_tile", "async_copy", "warp_tile_mixed", "wmma", "mma_swizzled", "mma_pipelined",
    "wgmma_tma", "wgmma_specialized", "wgmma_persistent", "wgmma_cluster", "wgmma_split_k", "wgmma_stream_k",
    "fp32_tensor_bf16x6", "simt_best", "fp32_tensor_fp16x3", "fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3",
]  # fmt: skip
TENSOR, HOPPER, FP32_TENSOR = NAMES[12:15], NAMES[15:21], ["fp32_tensor_bf16x6", "fp32_tensor_fp16x3"]
FP32_WGMMA = NAMES[24:]
each_rung = pytest.mark.parametrize("name", NAMES)
HEADERS = rungs()[0].source.parent / "include"

# What the worklogs published, and our own: rung, preset, threads, values that must be so.
PUBLISHED = [
    ("naive", "32x32", 1024, {"TILE": 32}),
    ("coalesced", "32x32", 1024, {"TILE": 32}),
    ("shared_tile", "32x32x32", 1024, {"TILE": 32}),
    ("register_block", "32-2x2", 256, {"TILE": 32, "SIDE": 2}),
    ("block_tile_1d", "64x64x8-8", 512, {"BM": 64, "BN": 64, "BK": 8, "TM": 8}),
    ("block_tile_2d", "64x64x8-8x8", 64, {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "TN": 8}),
    ("block_tile_2d", "128x128x8-8x8", 256, {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}),
    ("vectorized", "128x128x8-8x8", 256, {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8, "VEC": 4}),
    ("vectorized", "64x64-4x4", 256, {"BM": 64, "BN": 64, "TM": 4, "TN": 4, "VEC": 4}),
    ("padded", "128x128x8-8x8", 256, {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}),
    ("padded", "128x128x16-8x8", 256, {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}),
    ("rectangular", "64x64x64-8x4", 128, {"BM": 64, "BN": 64, "BK": 64, "TM": 8, "TN": 4, "UNROLL": 4}),
    ("warp_tile", "64x64-8x4", 128,
     {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 64, "WNITER": 4, "TM": 8, "TN": 4}),
    ("warp_tile", "64x32-8x8", 256, {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8}),
    ("async_copy", "64x64-8x4", 128, {"BM": 64, "BN": 64, "TM": 8, "TN": 4, "UNROLL": 16}),
    ("warp_tile_mixed", "64x64-8x4", 128,
     {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 64, "WNITER": 4, "TM": 8, "TN": 4}),
    ("warp_tile_mixed", "64x32-8x8", 256, {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8}),
    ("wmma", "128x128x32-64x32", 256, {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32}),
    ("mma_swizzled", "128x128-64x64", 128, {"BM": 128, "BN": 128, "BK_BYTES": 64, "WM": 64, "WN": 64}),
    ("mma_pipelined", "128x128-64x64", 128, {"BM": 128, "BN": 128, "BK_BYTES": 64, "WM": 64, "WN": 64, "STAGES": 4}),
    ("mma_pipelined", "h200", 256, {"BM": 256, "BN": 128, "BK_BYTES": 128, "WM": 64, "WN": 64, "STAGES": 4}),
    ("mma_pipelined", "h200-tf32", 256, {"BM": 256, "BN": 128, "BK_BYTES": 128, "WM": 64, "WN": 64, "STAGES": 3}),
    ("wgmma_tma", "128x256", 256, {"BM": 128, "BN": 256, "STAGES": 4}),
    ("wgmma_specialized", "128x256", 384, {"BM": 128, "BN": 256, "STAGES": 4, "CONSUMERS": 2}),
    ("wgmma_persistent", "128x256", 384, {"BM": 128, "BN": 256, "STAGES": 4, "CONSUMERS": 2}),
    ("wgmma_cluster", "128x256-2x1", 384, {"BM": 128, "BN": 256, "STAGES": 4, "CLUSTER_M": 2, "CLUSTER_N": 1}),
    ("wgmma_cluster", "256x192-1x2", 384, {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2}),
    ("wgmma_split_k", "64x32-8", 256, {"BM": 64, "BN": 32, "STAGES": 8, "SPLIT": 8, "SWAP": 0}),
    ("wgmma_split_k", "skinny", 256, {"BM": 64, "BN": 16, "STAGES": 8, "SPLIT": 2, "SWAP": 1}),
    ("wgmma_split_k", "deep", 256, {"BM": 64, "BN": 64, "STAGES": 6, "SPLIT": 8, "CLUSTERS": 8, "DETERMINISTIC": 1}),
    ("wgmma_split_k", "loose", 256, {"BM": 64, "BN": 16, "STAGES": 5, "SPLIT": 2, "SWAP": 1, "DEPTH": 2, "UNALIGNED_OPERANDS": 1}),
    ("wgmma_split_k", "small", 256, {"BM": 64, "BN": 64, "STAGES": 2, "SPLIT": 1, "SWAP": 0, "DEPTH": 1, "UNALIGNED_OPERANDS": 2}),
    ("wgmma_stream_k", "256x192-1x2", 384, {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2}),
    ("fp32_tensor_bf16x6", "128x128-32x64", 256, {"BM": 128, "BN": 128, "BK_BYTES": 64, "WM": 32, "WN": 64}),
    ("fp32_tensor_bf16x6", "128x128-64x64", 128, {"BM": 128, "BN": 128, "BK_BYTES": 64, "WM": 64, "WN": 64}),
    ("simt_best", "128x256-16x8", 256, {"BM": 128, "BN": 256, "BK": 16, "TM": 16, "TN": 8, "SHARERS": 0}),
    ("simt_best", "128x64-4", 256, {"BM": 128, "BN": 64, "BK": 32, "TM": 16, "TN": 8, "TEAMS": 4, "SHARERS": 0}),
    ("simt_best", "skinny", 128, {"BM": 16, "BN": 128, "TM": 4, "TN": 8, "TEAMS": 2, "SHARERS": 264}),
    ("simt_best", "deep", 128, {"BM": 32, "BN": 64, "BK": 32, "TM": 8, "TN": 8, "TEAMS": 4, "SHARERS": 264}),
    ("fp32_tensor_fp16x3", "128x128-32x64", 256, {"BM": 128, "BN": 128, "BK_BYTES": 64, "WM": 32, "WN": 64}),
    ("fp32_tensor_fp16x3", "128x128-64x64", 128, {"BM": 128, "BN": 128, "BK_BYTES": 64, "WM": 64, "WN": 64}),
    ("fp32_wgmma_bf16x6", "128x128-2x1", 384, {"BM": 128, "BN": 128, "STAGES": 6, "CONSUMERS": 2, "COMPENSATED": 1}),
    ("fp32_wgmma_bf16x6", "128x192-2x1", 384, {"BM": 128, "BN": 192, "STAGES": 5, "CONSUMERS": 2, "COMPENSATED": 0}),
    ("fp32_wgmma_fp16x3", "128x192-2x1", 384, {"BM": 128, "BN": 192, "STAGES": 5, "CONSUMERS": 2, "COMPENSATED": 0}),
    ("fp32_wgmma_fp16x3", "128x128-2x1", 384, {"BM": 128, "BN": 128, "STAGES": 6, "CONSUMERS": 2, "COMPENSATED": 1}),
]  # fmt: skip


def preset_named(spec: KernelSpec, name: str) -> Preset:
    return next(p for p in spec.presets if p.name == name)


def problem_for(spec: KernelSpec, m: int, n: int, k: int) -> Problem:
    return Problem(m, n, k, dtype=spec.dtypes[0])


def tile_of(values: dict[str, int]) -> tuple[int, int]:
    return (values["TILE"], values["TILE"]) if "TILE" in values else (values["BM"], values["BN"])


# --- registry


def test_the_ladder_is_in_order() -> None:
    assert [s.name for s in rungs()] == NAMES
    assert [s.rung for s in rungs()] == list(range(1, len(NAMES) + 1))
    assert rungs() is rungs()


@each_rung
def test_a_rung_is_found_by_name(name: str) -> None:
    assert rung_named(name).name == name


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("warptile", "warp_tile"), ("vectorised", "vectorized"), ("niave", "naive"), ("padding", "padded")],
)
def test_a_misspelt_name_is_corrected(wrong: str, meant: str) -> None:
    with pytest.raises(UnknownKernelError) as caught:
        rung_named(wrong)
    assert f"did you mean {meant}?" in caught.value.hint
    assert all(name in caught.value.hint for name in NAMES)


def test_a_name_like_none_gets_the_list_only() -> None:
    with pytest.raises(UnknownKernelError, match=r"no rung called '!'\nthe rungs: naive, coalesced"):
        rung_named("!")


# --- sources


@each_rung
def test_a_source_opens_with_its_lesson(name: str) -> None:
    spec = rung_named(name)
    header = re.match(r"(//[^\n]*\n)+", spec.code)
    assert header is not None
    lines = header.group().splitlines()
    assert lines[0].startswith(f"// {spec.rung:02d} {name}: ")
    sections = [m.group(1) for line in lines if (m := re.match(r"// ([A-Z][a-z]+(?: next)?) {2,}\S", line))]
    assert sections == ["Idea", "Changed", "Owns", "Budget", "Needs", "Try next"]
    art = ("+--", "[abcd]", "multiply      [", "PAD = 0   ", "64 of k x BN", "producer  ", "block 0 ", "cluster 0  ")
    assert any(drawn in header.group() for drawn in art)


@each_rung
def test_a_source_is_short_and_narrow(name: str) -> None:
    lines = rung_named(name).code.splitlines()
    assert len(lines) <= 200
    assert max(map(len, lines)) <= 120


@each_rung
def test_a_source_is_named_after_its_rung(name: str) -> None:
    spec = rung_named(name)
    assert spec.source.name == f"{spec.rung:02d}_{name}.cu"


@each_rung
def test_the_entry_has_the_one_signature(name: str) -> None:
    signature = rung_named(name).signature
    assert signature.entry == "gemm"
    roles, codes = tuple(a.role for a in signature.arguments), tuple(a.code for a in signature.arguments)
    if name in HOPPER:  # maps in place of A and B, their leading dimensions inside; themselves, where one may be loose
        stored = ("wgmma_persistent", "wgmma_cluster", "wgmma_stream_k")
        assert roles == ("M", "N", "K", "alpha", "mapA", "mapB", "beta", "C", "ldc", *(["mapC"] * (name in stored)),
                         "bias", "strideA", "strideB", "strideC", *(["batch"] * (name in stored)),
                         *(["workspace"] * (name in ("wgmma_split_k", "wgmma_stream_k"))),
                         *(["A", "lda", "B", "ldb"] * (name == "wgmma_split_k")))  # fmt: skip
        assert {code for role, code in zip(roles, codes, strict=True) if role.startswith("map")} == {"128s"}
    elif name in FP32_WGMMA:  # maps of parts, and the operands themselves, for sums that are not finite
        assert roles == ("M", "N", "K", "alpha", "mapA", "mapB", *ROLES[4:], "batch", "workspace")
    elif name in (*FP32_TENSOR, "simt_best"):  # a workspace besides, with a verdict on the data or sums to be added
        assert roles == (*ROLES, "workspace")
        assert "".join(codes) == "iiifPqPqfPqPqqqP"
    else:
        assert roles == (ROLES if rung_named(name).epilogue else ROLES[: ROLES.index("bias")])
        assert "".join(codes).removesuffix("Pqqq") == "iiifPqPqfPq"


@each_rung
def test_every_parameter_is_used_by_the_source(name: str) -> None:
    spec = rung_named(name)
    for parameter in spec.parameters:
        assert re.search(rf"\b{parameter.name}\b", spec.code), parameter.name
        assert parameter.default in parameter.legal
        assert parameter.meaning


@each_rung
def test_float_arithmetic_is_spelled_out(name: str) -> None:
    """Contraction must not be left to ptxas, so accumulators only ever meet __fmaf_rn."""
    code = re.sub(r"//[^\n]*", "", rung_named(name).code)
    products = {**dict.fromkeys([*TENSOR, *FP32_TENSOR], r"\bmma(_sync)?\("),
                **dict.fromkeys(HOPPER, r"\b(consumer_mainloop|wgmma_stage)<"),
                **dict.fromkeys(FP32_WGMMA, r"\bsplit_gemm<")}  # fmt: skip
    assert re.search(products.get(name, "__fmaf_rn"), code)
    assert not re.search(r"\b(acc|sums?)\b[^;=]*[+*]=", code)


def test_the_epilogue_is_spelled_out() -> None:
    """The rungs on tensor cores leave all arithmetic in fp32 to epilogue.cuh, where each rounding has a name."""
    code = re.sub(r"//[^\n]*", "", (HEADERS / "epilogue" / "epilogue.cuh").read_text("utf-8"))
    assert all(name in code for name in ("__fmul_rn", "__fmaf_rn", "__fadd_rn", "__float2half_rn", "__float2int_rn"))
    assert not re.search(r"\b(alpha|beta) \*|\* ?(alpha|beta)\b", code)


def test_inline_ptx_stands_behind_wrappers_only() -> None:
    """All of it is in include/ptx, where a reader looks for an instruction."""
    package = HEADERS.parent.parent
    others = [*package.glob("ladder/*.cu"), *package.glob("prologue/*.cu"), *HEADERS.glob("*/*.cuh")]
    with_asm = [path for path in others if re.search(r"\basm\b", path.read_text(encoding="utf-8"))]
    assert with_asm
    assert not [path.name for path in with_asm if path.parent != HEADERS / "ptx"]


@pytest.mark.parametrize("header", sorted(HEADERS.glob("*/*.cuh")), ids=lambda p: p.name)
def test_a_header_is_used_and_needs_no_standard_library(header: Path) -> None:
    text = header.read_text(encoding="utf-8")
    package = HEADERS.parent.parent
    others = [*package.glob("ladder/*.cu"), *package.glob("prologue/*.cu"), *HEADERS.glob("*/*.cuh")]
    included = f'#include "{header.relative_to(HEADERS).as_posix()}"'
    assert any(included in other.read_text(encoding="utf-8") for other in others)
    assert text.startswith("//")
    assert not re.search(r"#include <c?std\w+", text)


# --- configurations


@pytest.mark.parametrize(("name", "preset", "threads", "values"), PUBLISHED, ids=[f"{p[0]}-{p[1]}" for p in PUBLISHED])
def test_a_preset_is_what_was_published(name: str, preset: str, threads: int, values: dict[str, int]) -> None:
    spec = rung_named(name)
    config = spec.config(preset=preset)
    assert dict(config).items() >= values.items()
    assert config == preset_named(spec, preset).config
    assert preset_named(spec, preset).published
    assert spec.geometry(problem_for(spec, 256, 256, 256), config).threads == threads


@each_rung
def test_the_published_presets_are_all_there_are(name: str) -> None:
    assert [p.name for p in rung_named(name).presets] == [p[1] for p in PUBLISHED if p[0] == name]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "wgmma_split_k"])
def test_the_first_preset_is_the_default(name: str) -> None:
    spec = rung_named(name)
    assert spec.presets[0].config == spec.config()


# Sweeps of the worklogs: every point is legal.
SWEPT = [
    *(("rectangular", {"UNROLL": u}) for u in (1, 2, 4, 8, 16)),
    *(("async_copy", {"UNROLL": u}) for u in (1, 2, 4, 8, 16)),
    *(("padded", {"PAD": p}) for p in (0, 1, 4, 8)),
    *(("padded", {"BK": bk}) for bk in (8, 16, 32)),
    *(("vectorized", {"VEC": v}) for v in (1, 2, 4)),
    *(("async_copy", {"STAGES": s}) for s in (2, 3, 4)),
    *(("rectangular", {"TM": tm, "TN": tn}) for tm, tn in ((4, 4), (8, 4), (8, 8), (16, 4), (16, 8), (4, 32))),
    *(("rectangular", {"BM": 128, "BN": 128, "BK": 16, "TM": tm, "TN": tn}) for tm, tn in ((8, 64), (16, 16))),
]


@pytest.mark.parametrize(("name", "changes"), SWEPT, ids=[f"{n}-{c}" for n, c in SWEPT])
def test_a_published_sweep_can_be_repeated(name: str, changes: dict[str, int]) -> None:
    assert dict(rung_named(name).config(changes)).items() >= changes.items()


REFUSED = [
    ("naive", {"TILE": 33}, "TILE=33 is not one of 8, 16, 32"),
    ("register_block", {"TILE": 64, "SIDE": 1}, "(TILE/SIDE)² = (64/1)² = 4096 threads, but a block has 32 to 1024"),
    ("block_tile_1d", {"BM": 128, "BN": 256, "TM": 4}, "BM·BN/TM = 128·256/4 = 8192 threads"),
    ("block_tile_1d", {"BM": 32, "BN": 256}, "a slice of A has BM·BK = 32·8 = 256 elements"),
    ("block_tile_2d", {"BM": 32, "BN": 32, "TM": 16}, "BM·BN/(TM·TN) = 32·32/(16·8) = 8 threads"),
    ("block_tile_2d", {"BM": 256, "BN": 256, "BK": 32, "MIN_BLOCKS": 1},
     "4·(BM+BN)·BK = 4·(256+256)·32 = 65,536 B of shared memory, but 49,152 B is the most a kernel can declare"),
    ("block_tile_2d", {"BM": 128, "BN": 128}, "MIN_BLOCKS=8 blocks of 256 threads are 2048 threads"),
    ("vectorized", {"BM": 64, "BN": 64, "TM": 4, "TN": 4},
     "a slice of A has BM·BK = 64·8 = 512 elements, which is not a multiple of 256 threads · 4 elements per load"),
    ("padded", {"BM": 256, "BN": 128, "BK": 32}, "4·(BM+PAD+BN)·BK = 4·(256+4+128)·32 = 49,664 B"),
    ("padded", {"PAD": 2}, "PAD=2 is not one of 0, 1, 4, 8"),
    ("rectangular", {"TN": 128}, "TN=128 does not divide BN=64"),
    ("rectangular", {"TN": 64}, "BM·BN/(TM·TN) = 64·64/(8·64) = 8 threads"),
    ("rectangular", {"BM": 256, "BN": 128, "BK": 16, "TN": 128},
     "TM·TN = 8·128 = 1024 accumulators, but a thread has 255 registers"),
    ("rectangular", {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 64, "UNROLL": 16},
     "TM·TN·UNROLL = 8·64·16 = 8192 multiplications in a row"),
    ("rectangular", {"BK": 8, "UNROLL": 16}, "UNROLL=16 does not divide BK=8"),
    ("rectangular", {"BM": 256, "BN": 256, "TM": 16, "TN": 16, "MIN_BLOCKS": 1},
     "4·(BM·(BK+PAD)+BK·BN) = 4·(256·(64+4)+64·256) = 135,168 B of shared memory, but 101,376 B is the most a block"),
    ("warp_tile", {"WM": 128, "BM": 64}, "WM=128 does not divide BM=64"),
    ("warp_tile", {"WM": 16, "WN": 16}, "WM·WN = 16·16 = 256 outputs, which is not a multiple of "
     "32·TM·TN·WNITER = 32·8·4·4 = 4096"),
    ("warp_tile", {"WM": 16, "WN": 16, "WNITER": 1, "TM": 4, "TN": 4},
     "32·(BM/WM)·(BN/WN) = 32·(128/16)·(128/16) = 2048 threads"),
    ("async_copy", {"BK": 64, "STAGES": 4},
     "STAGES·4·(BM·(BK+PAD)+BK·BN) = 4·4·(64·(64+4)+64·64) = 135,168 B"),
    ("async_copy", {"BK": 8}, "UNROLL=16 does not divide BK=8"),
    ("async_copy", {"STAGES": 1}, "STAGES=1 is not one of 2, 3, 4"),
    ("warp_tile_mixed", {"BM": 64, "BK": 8, "WM": 32, "WN": 32, "WNITER": 1, "UNROLL": 8},
     "a slice of A has BM·BK = 64·8 = 512 elements, which is not a multiple of 256 threads · 8"),
    ("wmma", {"PAD": 4}, "PAD=4 is not one of 0, 8, 16"),
    ("wmma", {"BN": 64, "WN": 128}, "WN=128 does not divide BN=64"),
    ("mma_swizzled", {"WM": 16, "WN": 16}, "32·(BM/WM)·(BN/WN) = 32·(128/16)·(128/16) = 2048 threads"),
    ("mma_swizzled", {"BM": 256, "WM": 128, "WN": 32, "BN": 32}, "BN=32 is not one of 64, 128, 256"),
    ("mma_pipelined", {"BM": 256, "WM": 128, "WN": 128}, "WM·WN/32 = 128·128/32 = 512 sums a lane"),
    ("mma_pipelined", {"BK_BYTES": 32}, "BK_BYTES=32 is not one of 64, 128"),
    ("mma_pipelined", {"STAGES": 2}, "STAGES=2 is not one of 3, 4, 5, 6"),
    ("mma_pipelined", {"BM": 256, "BN": 64, "WM": 64, "WN": 64, "MIN_BLOCKS": 4, "BK_BYTES": 128, "STAGES": 6},
     "STAGES·(BM+BN)·BK_BYTES = 6·(256+64)·128 = 245,760 B of shared memory, but 232,448 B"),
    ("wgmma_split_k", {"UNALIGNED_OPERANDS": 3}, "UNALIGNED_OPERANDS=3 is not one of 0, 1, 2"),
    ("wgmma_split_k", {"BN": 240, "STAGES": 2, "UNALIGNED_OPERANDS": 2},
     "a thread that brings loose operands holds (BM+2·BN)·DEPTH/4 = (64+2·240)·1/4 = 136 registers of them, but with 1 "
     "consumers 128 fit"),
    ("wgmma_split_k", {"BN": 112, "STAGES": 2, "DEPTH": 2, "UNALIGNED_OPERANDS": 2}, "(64+2·112)·2/4 = 144 registers of them"),
    ("wgmma_split_k", {"BM": 128, "BN": 144, "STAGES": 2, "CONSUMERS": 2, "UNALIGNED_OPERANDS": 2},
     "(128+2·144)·1/4 = 104 registers of them, but with 2 consumers 96 fit"),
    ("wgmma_split_k", {"BM": 192, "BN": 48, "STAGES": 2, "CONSUMERS": 3, "SPLIT": 1, "UNALIGNED_OPERANDS": 2},
     "(192+2·48)·1/4 = 72 registers of them, but with 3 consumers 64 fit"),
    ("wgmma_split_k", {"BM": 128, "BN": 16, "STAGES": 2, "CONSUMERS": 2, "DEPTH": 4, "UNALIGNED_OPERANDS": 1},
     "a thread that brings loose operands holds BM·DEPTH/4 = 128·4/4 = 128 registers of them, but with 2 consumers 96"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "reason"), REFUSED, ids=[f"{n}-{c}" for n, c, _ in REFUSED])
def test_an_illegal_configuration_is_refused_with_the_arithmetic(
    name: str, changes: dict[str, int], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        rung_named(name).config(changes)
    assert reason in str(caught.value)


@pytest.mark.parametrize("changes", [
    {"BN": 224}, {"BN": 96, "DEPTH": 2}, {"BN": 32, "DEPTH": 4}, {"BM": 128, "BN": 128, "CONSUMERS": 2},
    {"BM": 128, "BN": 32, "CONSUMERS": 2, "DEPTH": 2}, {"BM": 192, "BN": 32, "CONSUMERS": 3, "SPLIT": 1},
], ids=str)  # fmt: skip
def test_as_much_of_both_operands_as_fits_is_brought_by_threads(changes: dict[str, int]) -> None:
    """And 16 columns more only of one."""
    spec, few = rung_named("wgmma_split_k"), {"STAGES": 2, **changes}
    assert spec.config({**few, "UNALIGNED_OPERANDS": 2})["UNALIGNED_OPERANDS"] == 2
    wider = {**few, "BN": changes["BN"] + 16}
    assert spec.config({**wider, "UNALIGNED_OPERANDS": 1})["UNALIGNED_OPERANDS"] == 1
    with pytest.raises(ConfigError, match="a thread that brings loose operands"):
        spec.config({**wider, "UNALIGNED_OPERANDS": 2})


# --- what a rung takes


@each_rung
def test_layouts_and_types(name: str) -> None:
    spec = rung_named(name)
    tensor = (*TENSOR, *HOPPER, *FP32_TENSOR, *FP32_WGMMA)
    any_layout = ("naive", "coalesced", "simt_best", *tensor)
    assert spec.layouts == (("NN", "NT", "TN", "TT") if name in any_layout else ("NN",))
    every = (FP16, BF16, TF32, INT8)
    narrow = dict.fromkeys(("wmma", "warp_tile_mixed", *HOPPER), (FP16, BF16))
    assert spec.dtypes == (narrow | {"mma_swizzled": every, "mma_pipelined": every}).get(name, (FP32,))
    assert spec.tensor_cores == (name in tensor)
    assert spec.epilogue == spec.batched == (name in ("warp_tile", "simt_best", *tensor))
    for dtype in spec.dtypes:
        assert {out for out in OUTPUTS[dtype] if out in spec.out_dtypes} == (
            set(OUTPUTS[dtype]) if name in tensor else {FP32}
        )
    cp_async = ("async_copy", "mma_swizzled", "mma_pipelined", "simt_best", *FP32_TENSOR)
    assert (spec.min_arch, spec.arch_specific, spec.simulated) == (
        (90, 90, False) if name in (*HOPPER, *FP32_WGMMA) else (80 if name in cp_async else 75, 0, True)
    )


@pytest.mark.parametrize(("problem", "message"), [
    (Problem(4, 4, 4, FP16, trans_a=True), "warp_tile_mixed takes layout NN, not TN\nuse wmma or mma_swizzled"),
    (Problem(4, 4, 4, FP16, FP16), "warp_tile_mixed writes fp32, not fp16\nuse wmma or mma_swizzled or mma_pipelined"),
    (Problem(4, 4, 4, TF32), "takes fp16, bf16 inputs, not tf32\nuse mma_swizzled or mma_pipelined"),
    (Problem(4, 4, 4, INT8, INT32), "takes fp16, bf16 inputs, not int8\nuse mma_swizzled or mma_pipelined"),
    (Problem(4, 4, 4, BF16, bias="row"), "takes no bias and no activation\nuse wmma"),
    (Problem(4, 4, 4, BF16, activation="relu"), "takes no bias and no activation\nuse wmma"),
    (Problem(4, 4, 4, FP16, batch=2), "takes one product, not a batch of 2\nuse wmma"),
], ids=str)  # fmt: skip
def test_what_a_rung_does_not_take_names_who_does(problem: Problem, message: str) -> None:
    spec = rung_named("warp_tile_mixed")
    with pytest.raises(UnsupportedError) as caught:
        check_accepts(spec, problem)
    assert message in str(caught.value)
    assert not spec.takes(problem)
    assert rung_named("mma_pipelined").takes(problem)


@pytest.mark.parametrize("name", NAMES[2:11])
def test_a_refused_layout_names_who_takes_it(name: str) -> None:
    with pytest.raises(UnsupportedError, match="use naive or coalesced"):
        check_accepts(rung_named(name), Problem(4, 4, 4, trans_b=True))


# --- geometry

SHAPES = [
    (1, 1, 1),
    (31, 33, 7),
    (64, 64, 0),
    (128, 128, 128),
    (129, 127, 65),
    (1, 4097, 8),
    (4097, 1, 8),
    (300, 700, 5),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "name", [name for name in NAMES if not rung_named(name).tensor_maps]
)  # of others: tests/ladder
def test_the_grid_covers_the_problem_with_no_block_to_spare(name: str, shape: tuple[int, int, int]) -> None:
    spec = rung_named(name)
    for config in (preset.config for preset in spec.presets if not dict(preset.config).get("SHARERS")):
        problem = problem_for(spec, *shape)
        geometry = spec.geometry(problem, config)
        rows, cols = tile_of(dict(config))
        assert geometry.grid == (ceil_div(problem.m, rows) * ceil_div(problem.n, cols), 1, 1)
        assert geometry.block[1:] == (1, 1)
        assert geometry.threads % 32 == 0


@pytest.mark.parametrize(("m", "n"), [(MAX_EXTENT, 1), (1, MAX_EXTENT), (2**20, 2**20)])
@each_rung
def test_a_huge_extent_can_be_launched(name: str, m: int, n: int) -> None:
    """gridDim.x ends at 2^31 - 1, gridDim.y at 65,535."""
    spec = rung_named(name)
    if name == "wgmma_split_k":  # for small outputs; it has four blocks for 64 x 32
        n = min(n, 2**19)
    grid = spec.geometry(problem_for(spec, m, n, 1), spec.config()).grid
    assert 1 <= grid[0] <= 2**31 - 1
    assert grid[1:] == (1, 1)


@pytest.mark.parametrize(("m", "n"), [(0, 5), (5, 0), (0, 0)])
@each_rung
def test_an_empty_problem_has_an_empty_grid(name: str, m: int, n: int) -> None:
    spec = rung_named(name)
    assert spec.geometry(problem_for(spec, m, n, 3), spec.config()).blocks == 0


@pytest.mark.parametrize(
    ("name", "changes", "smem"),
    [
        ("vectorized", {}, 0),
        ("padded", {}, 0),
        ("rectangular", {}, 4 * (64 * 68 + 64 * 64)),
        ("warp_tile", {}, 4 * 16 * (132 + 128)),
        ("async_copy", {}, 2 * 4 * (64 * 20 + 16 * 64)),
        ("async_copy", {"STAGES": 3, "BK": 32}, 3 * 4 * (64 * 36 + 32 * 64)),
        ("warp_tile_mixed", {}, 2 * 16 * (132 + 128)),
        ("wmma", {}, 0),
        ("mma_swizzled", {}, (128 + 128) * 64),
        ("mma_pipelined", {}, 4 * (128 + 128) * 64),
        ("fp32_tensor_bf16x6", {}, 4 * (128 + 128) * 64),
        ("fp32_tensor_fp16x3", {}, 3 * 2 * (128 + 128) * 64),
        ("mma_pipelined", {"BM": 256, "BK_BYTES": 128, "STAGES": 3, "MIN_BLOCKS": 1}, 3 * (256 + 128) * 128),
    ],
)
def test_dynamic_shared_memory(name: str, changes: dict[str, int], smem: int) -> None:
    spec = rung_named(name)
    assert spec.geometry(problem_for(spec, 64, 64, 64), spec.config(changes)).smem == smem


@pytest.mark.parametrize("name", ["warp_tile", *TENSOR, *FP32_TENSOR])
def test_a_batch_goes_along_z(name: str) -> None:
    spec = rung_named(name)
    one, many = (spec.geometry(problem_for(spec, 300, 200, 8).with_(batch=n), spec.config()) for n in (1, 5))
    assert many.grid == (*one.grid[:2], 5)
    assert (many.block, many.smem) == (one.block, one.smem)


def test_a_batch_beyond_the_grid_is_refused() -> None:
    spec = rung_named("warp_tile")
    check_accepts(spec, Problem(1, 1, 1, batch=65_535))
    with pytest.raises(UnsupportedError, match="65,535 products at most, not 65,536"):
        check_accepts(spec, Problem(1, 1, 1, batch=65_536))
