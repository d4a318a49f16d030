"""Kernels that stand in for rungs, with the same bits, while those are compiled.

What decides the bits of a product is an argument of these kernels, and so are the layouts: each is compiled once for
every epilogue, whatever the rung's configuration.

    19, 20     wgmma_plain.cu
    25, 27     fp32_split.cu
    23         fp32_fma.cu

They are slow, but have little code: one copy of what fast kernels unroll.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import LaunchFormulas
from gemmsmith.kernel.signature import Argument, Signature, parse_signature, strip_comments
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, Problem

_SIMT, _SPLIT_BEFORE, _REGISTERS = "simt_best", "fp32_wgmma_bf16x6", "fp32_wgmma_registers"
_CLUSTER, _SPLIT_K = "wgmma_cluster", "wgmma_split_k"
_HOME = Path(__file__).parent
_WIDEST = 3 * 64  # rows of a tile of three consumers
# Bits of the argument `order` of fp32_split.cu, and the position of the parts of k in it.
_SWAPPED, _PERMUTED, _COMPENSATED, _TWO_STEPS, _TRANSPOSED_A, _TRANSPOSED_B, _BLOCKED = (1 << i for i in range(7))
_PARTS = 8
_DIVISION = ("BM", "BN", "BK", "GROUP", "TEAMS", "CLUSTER_K", "SHARERS")
# Products that take a stand-in longer than a compiler takes for the rung: multiplications and additions, about 0.1 s.
_MOST = {_SIMT: 1e11, _SPLIT_BEFORE: 6e11, _REGISTERS: 6e11, _CLUSTER: 1e12, _SPLIT_K: 1e12}


def stand_in(spec: KernelSpec, config: Config, problem: Problem, resident: int = 0) -> KernelSpec | None:
    """The kernel that computes ``problem`` with the bits of ``spec`` in ``config``; None where there is none, or the
    product is so large that compiling the rung is faster.

    ``resident``: how many blocks of the rung run at the same time at least. Its slices of K are used only if all do.
    """
    if problem.flops > 2 * _MOST.get(spec.name, 0):
        return None
    if spec.name in (_CLUSTER, _SPLIT_K):
        return _plain(spec, config, problem, resident)
    if spec.name == _SIMT:
        values = (int(problem.trans_a), int(problem.trans_b), *(config[name] for name in _DIVISION))
        names = ("transposed_a", "transposed_b", "bm", "bn", "bk", "group", "teams", "cluster", "sharers")
        return _fma(tuple(zip(names, values, strict=True)), spec.rung, problem.layout)
    return _split(_order(spec, config, problem), spec.rung, problem.layout)


def _plain(spec: KernelSpec, config: Config, problem: Problem, resident: int) -> KernelSpec | None:
    values = config.by_name
    slices = values.get("SLICES", 1)
    if values.get("CLUSTERS", 1) > 1 or (slices > 1 and spec.geometry(problem.folded, config).blocks > resident):
        return None
    parts = values.get("SPLIT", 1) * values.get("CLUSTER_K", 1) * slices  # at most one of them divides K
    division = (int(problem.trans_a), int(problem.trans_b), values.get("DEPTH", 1), parts)
    return _tensor_core(division, spec.rung, problem.layout)


@cache
def _tensor_core(division: tuple[int, ...], rung: int, layout: str) -> KernelSpec:
    names = ("transposed_a", "transposed_b", "depth", "parts")
    launch = LaunchFormulas("128", "0", "ceil(M/64)*ceil(N/32)*BATCH", "1", pdl=True)
    found = _spec("wgmma_plain", tuple(zip(names, division, strict=True)), launch, rung, layout)
    return replace(found, dtypes=(FP16, BF16), out_dtypes=(FP32, FP16, BF16), arch_specific=90, min_arch=90,
                   tensor_cores=True)  # fmt: skip


def _order(spec: KernelSpec, config: Config, problem: Problem) -> int:
    order = (_TRANSPOSED_A if problem.trans_a else 0) | (_TRANSPOSED_B if problem.trans_b else 0)
    if spec.name == _SPLIT_BEFORE:
        return order | 1 << _PARTS | (_BLOCKED if config["BLOCKED_SUMS"] else 0)
    order |= _COMPENSATED if config["COMPENSATED"] else 0
    swap = config["SWAP"]
    order |= config["SPLIT"] << _PARTS | (_SWAPPED if swap else 0) | (0 if _adds_four_steps(config) else _TWO_STEPS)
    # A K-major tall operand is read in another order of k.
    return order | (_PERMUTED if (problem.trans_b if swap else not problem.trans_a) else 0)


def _adds_four_steps(config: Config) -> bool:
    """Whether STEPS of 27_fp32_wgmma_registers.cu is 4: the tensor core adds so many steps of 16 k from zero."""
    registers = config["BN"] // 2 * (2 + config["COMPENSATED"]) + 2 * 48
    return registers <= (128 if config["BM"] == _WIDEST else 176)


@cache
def _split(order: int, rung: int, layout: str) -> KernelSpec:
    rows, cols = ("N", "M") if order & _SWAPPED else ("M", "N")
    launch = LaunchFormulas("128", "0", f"ceil({rows}/64)*ceil({cols}/32)*BATCH", "1", pdl=True)
    return replace(_spec("fp32_split", (("order", order),), launch, rung, layout), arch_specific=90, min_arch=90,
                   tensor_cores=True, arithmetic="bf16x6")  # fmt: skip


@cache
def _fma(arguments: tuple[tuple[str, int], ...], rung: int, layout: str) -> KernelSpec:
    launch = LaunchFormulas("128", "0", "ceil(M/4)*ceil(N/32)", pdl=True)
    return _spec("fp32_fma", arguments, launch, rung, layout)


def _spec(name: str, arguments: tuple[tuple[str, int], ...], launch: LaunchFormulas, rung: int,
          layout: str) -> KernelSpec:  # fmt: skip
    source = _HOME / f"{name}.cu"
    return KernelSpec(
        name=name,
        source=source,
        summary="for first calls: the bits of a rung, from code that compiles in a quarter of a second",
        teaches="",
        geometry=launch,
        rung=rung,  # whose product it computes
        dtypes=(FP32,),
        out_dtypes=(FP32,),
        layouts=(layout,),  # one, so that it is not compiled for each
        epilogue=True,
        batched=True,
        known_signature=_signature(source, dict(arguments)),
    )


def _signature(source: Path, arguments: Mapping[str, int]) -> Signature:
    """Of a kernel whose last arguments are these numbers."""
    added = "".join(f", int {name}" for name in arguments)
    words = " ".join(strip_comments(source.read_text(encoding="utf-8")).split())
    assert added in words, f"the last arguments of {source.name} are not {added}"
    known = parse_signature(words.replace(added, ""), "gemm")
    numbers = (Argument(name, str(value), "i") for name, value in arguments.items())
    return replace(known, arguments=(*known.arguments, *numbers))
