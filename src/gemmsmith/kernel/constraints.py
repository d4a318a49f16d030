"""Why a configuration is illegal, in words and with the arithmetic.

A constraint is a condition as text and a message. The same conditions are ``static_assert``s in the sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmsmith.gpus import common_smem, common_threads_per_sm, cuda_limits, largest_smem
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.expressions import holds, shown_value, with_arithmetic

STATIC_SMEM = cuda_limits().static_smem  # bytes a kernel may declare as __shared__ arrays, on every architecture
DYNAMIC_SMEM = common_smem(
    80
)  # bytes a block may ask for on sm_86, sm_89 and sm_120; sm_80, sm_90 and sm_100 allow more
LARGEST_SMEM = largest_smem()  # bytes a block may ask for on sm_90 and sm_100, the most of any architecture
THREADS_PER_SM = common_threads_per_sm(80)  # on sm_86, sm_89 and sm_120; others from sm_80 on hold 2048

_ALLOWED_BY = {
    STATIC_SMEM: "a kernel can declare",
    DYNAMIC_SMEM: "a block can have on sm_86, sm_89 and sm_120",
    LARGEST_SMEM: "a block can have on any GPU",
}


@dataclass(frozen=True)
class Requires:
    """A condition on the parameters; called with a configuration, it returns why that is illegal, or None.

    In the message ``{BM*BK}`` becomes ``BM·BK = 32·8 = 256``, ``{BM}`` becomes ``BM=32``, and ``{:BM*BK}`` the value
    alone.
    """

    condition: str
    message: str

    def __call__(self, config: Config) -> str | None:
        names = config.by_name
        if holds(self.condition, names):
            return None

        def filled(found: re.Match[str]) -> str:
            return (shown_value if found[1] else with_arithmetic)(found[2], names)

        return re.sub(r"\{(:?)([^{}]+)\}", filled, self.message)


def divides(small: str, large: str) -> Requires:
    """Whether one parameter divides another."""
    return Requires(f"{large} % {small} == 0", f"{{{small}}} does not divide {{{large}}}")


def whole_warps(threads: str) -> Requires:
    """Whether ``threads`` is a legal size of a block."""
    return Requires(
        f"({threads}) % 32 == 0 and 32 <= {threads} <= 1024",
        f"{{{threads}}} threads, but a block has 32 to 1024, a multiple of 32",
    )


def smem_fits(smem: str, limit: int) -> Requires:
    """Whether ``smem`` bytes are at most ``limit``: one of the three limits of this module."""
    return Requires(
        f"{smem} <= {limit}", f"{{{smem}}} B of shared memory, but {limit:,} B is the most {_ALLOWED_BY[limit]}"
    )


def equal_loads(threads: str, vector: int | str) -> tuple[Requires, Requires]:
    """Whether every thread loads equally many vectors of each k-tile; ``vector`` elements each, or a parameter."""

    def of(matrix: str, extent: str) -> Requires:
        per_step = f"({threads})*{vector}"
        return Requires(
            f"{extent}*BK % ({per_step}) == 0",
            f"a k-tile of {matrix} has {{{extent}*BK}} elements, which is not a multiple of {{:{threads}}} threads · "
            f"{{:{vector}}} elements per load = {{:{per_step}}}",
        )

    return of("A", "BM"), of("B", "BN")


def blocks_fit(threads: str) -> Requires:
    """Whether MIN_BLOCKS blocks fit on an SM of every architecture."""
    return Requires(
        f"MIN_BLOCKS*({threads}) <= {THREADS_PER_SM}",
        f"{{MIN_BLOCKS}} blocks of {{:{threads}}} threads are {{:MIN_BLOCKS*({threads})}} threads, "
        f"but an SM of sm_86, sm_89 and sm_120 holds {THREADS_PER_SM}",
    )
