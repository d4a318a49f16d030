"""Architectures: how they are written, what a kernel is compiled for, and why it cannot run on one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.gpus import architectures
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import DType

# What only compute capability 9.0 itself has
_SM_90A = re.compile(r"\bwgmma\.(?:mma_async|fence|commit_group|wait_group)\b|\bsetmaxnreg\b|\btensormap\.replace\b")


def arch_number(arch: str) -> int:
    """80 of "sm_80", 90 of "sm_90a"."""
    match = re.fullmatch(r"sm_(\d{2,3})[af]?", arch)
    if match is None:
        raise UsageError(f"{arch!r} is not a GPU architecture", "architectures are written sm_80, sm_90a and so on")
    return int(match.group(1))


def target_arch(spec: KernelSpec, arch: str) -> str:
    """What ``spec`` is compiled for on a GPU of ``arch``: ``arch`` itself, or "sm_90a" for a kernel of sm_90 alone."""
    if not spec.arch_specific:
        return arch
    if arch_number(arch) != spec.arch_specific:
        raise UnsupportedError(
            f"{spec.name} uses instructions that only sm_{spec.arch_specific} has, so it cannot be compiled for {arch}",
            "gemmsmith list shows the oldest architecture of each rung",
        )
    return f"sm_{spec.arch_specific}a"


def with_features(arch: str, texts: Iterable[str]) -> str:
    """ "sm_90a" in place of "sm_90" for a user's kernel that uses what only compute capability 9.0 itself has."""
    return "sm_90a" if arch == "sm_90" and any(map(_SM_90A.search, texts)) else arch


def check_target(spec: KernelSpec, arch: str, dtype: DType) -> str:
    """``target_arch``; raises ``UnsupportedError`` where ``spec`` does not run on ``arch`` with inputs of ``dtype``."""
    target = target_arch(spec, arch)
    number = arch_number(target)
    if number < spec.min_arch:
        raise UnsupportedError(f"{spec.name} needs sm_{spec.min_arch} or newer, not {target}")
    if lacking := missing_type(spec, number, dtype):
        oldest = next(each.arch for each in architectures() if each.multiplies(lacking))
        raise UnsupportedError(
            f"{spec.name} multiplies {lacking} on tensor cores, and those of sm_{number} do not",
            f"tensor cores have {lacking} from sm_{oldest} on: convert the inputs, or take a rung on CUDA cores",
        )
    return target


def runs_on(spec: KernelSpec, number: int, dtype: DType) -> bool:
    """Whether ``spec`` runs on sm_``number`` with inputs of ``dtype``."""
    if number < spec.min_arch or spec.arch_specific not in (0, number):
        return False
    return not missing_type(spec, number, dtype)


def missing_type(spec: KernelSpec, number: int, dtype: DType) -> str:
    """The type that a rung multiplies on tensor cores and those of sm_``number`` lack; empty if there is none.

    What a user's kernel multiplies (uint8, fp64) is for the compiler to judge. An architecture between two of the table
    (sm_87) has the types of the older one.
    """
    if not spec.tensor_cores or not spec.is_rung:
        return ""
    needed = spec.arithmetic.partition("x")[0] or dtype.name  # 'bf16' of 'bf16x6'
    older = [each for each in architectures() if each.arch <= number]
    return "" if not older or older[-1].multiplies(needed) else needed
