"""Why a configuration is illegal, in words and with the arithmetic.

Each function returns a constraint, or is one; the same conditions are ``static_assert``s in the sources.
"""

from __future__ import annotations

from gemmsmith.gpus import common_smem, common_threads_per_sm, cuda_limits
from gemmsmith.kernel.budgets import Count
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Constraint

STATIC_SMEM = cuda_limits().static_smem  # what a kernel may declare as __shared__ arrays, on every architecture
DYNAMIC_SMEM = common_smem(80)  # of a block on sm_86, sm_89 and sm_120; sm_80, sm_90 and sm_100 allow more
THREADS_PER_SM = common_threads_per_sm(80)  # of sm_86, sm_89 and sm_120; others from sm_80 on hold 2048


def whole_warps(formula: str, threads: Count) -> Constraint:
    def check(c: Config) -> str | None:
        n = threads(c)
        if n % 32 == 0 and 32 <= n <= 1024:
            return None
        return f"{formula} = {numbers(formula, c)} = {n} threads, but a block has 32 to 1024, a multiple of 32"

    return check


def smem_fits(formula: str, bytes_: Count, limit: int) -> Constraint:
    def check(c: Config) -> str | None:
        n = bytes_(c)
        if n <= limit:
            return None
        whose = "a kernel can declare" if limit == STATIC_SMEM else "a block can have on sm_86, sm_89 and sm_120"
        return f"{formula} = {numbers(formula, c)} = {n:,} B of shared memory, but {limit:,} B is the most {whose}"

    return check


def divides(small: str, large: str) -> Constraint:
    def check(c: Config) -> str | None:
        if c[large] % c[small] == 0:
            return None
        return f"{small}={c[small]} does not divide {large}={c[large]}"

    return check


def equal_loads(threads: Count, width: int | str) -> Constraint:
    """Every thread loads the same number of vectors of each slice; ``width`` elements each, or a parameter's."""

    def check(c: Config) -> str | None:
        n, vec = threads(c), c[width] if isinstance(width, str) else width
        for matrix, extent in (("A", "BM"), ("B", "BN")):
            elements = c[extent] * c["BK"]
            if n == 0 or elements % (n * vec):
                return (
                    f"a slice of {matrix} has {extent}·BK = {c[extent]}·{c['BK']} = {elements} elements, which is not "
                    f"a multiple of {n} threads · {vec} elements per load = {n * vec}"
                )
        return None

    return check


def blocks_fit(threads: Count) -> Constraint:
    def check(c: Config) -> str | None:
        n = c["MIN_BLOCKS"] * threads(c)
        if n <= THREADS_PER_SM:
            return None
        return (
            f"MIN_BLOCKS={c['MIN_BLOCKS']} blocks of {threads(c)} threads are {n} threads, "
            f"but an SM of sm_86, sm_89 and sm_120 holds {THREADS_PER_SM}"
        )

    return check


def code_fits(formula: str, outputs: Count) -> Constraint:
    """The unrolled inner loop stays within half of a 128 KB instruction cache: 4096 instructions of 16 bytes."""

    def check(c: Config) -> str | None:
        n = outputs(c) * c["UNROLL"]
        if n <= 4096:
            return None
        return f"{formula} = {numbers(formula, c)} = {n} multiplications in a row, but at most 4096 may be unrolled"

    return check


def accumulators_fit(c: Config) -> str | None:
    """Spilling is an experiment worth making; beyond twice the registers, ptxas needs minutes for it."""
    n = c["TM"] * c["TN"]
    if n <= 512:
        return None
    return f"TM·TN = {c['TM']}·{c['TN']} = {n} accumulators, but a thread has 255 registers; at most 512 are allowed"


def warp_is_filled(c: Config) -> str | None:
    """WMITER·WNITER pieces, each with one TM·TN tile for each of 32 lanes."""
    outputs, covered = c["WM"] * c["WN"], 32 * c["TM"] * c["TN"] * c["WNITER"]
    if outputs % covered:
        return (
            f"a warp tile has WM·WN = {c['WM']}·{c['WN']} = {outputs} outputs, which is not a multiple of "
            f"32·TM·TN·WNITER = 32·{c['TM']}·{c['TN']}·{c['WNITER']} = {covered}"
        )
    wmiter = outputs // covered
    for extent, pieces, side in (("WM", wmiter, "TM"), ("WN", c["WNITER"], "TN")):
        if c[extent] % (pieces * c[side]):
            name = "WMITER" if extent == "WM" else "WNITER"
            return f"{extent}={c[extent]} is not a multiple of {name}·{side} = {pieces}·{c[side]} = {pieces * c[side]}"
    return None


def numbers(formula: str, c: Config) -> str:
    """The formula with the configuration's values in place of the names."""
    for name, value in sorted(c, key=lambda item: -len(item[0])):
        formula = formula.replace(name, str(value))
    return formula
