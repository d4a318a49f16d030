"""Why a configuration is illegal, in words and with the arithmetic.

A constraint is a condition as text and a message. The same conditions are ``static_assert``s in the sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmsmith.gpus import architectures, common_smem, common_threads_per_sm, cuda_limits, largest_smem
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.expressions import holds, shown_value, with_arithmetic

_OLDEST = 80  # configurations are legal on every architecture from here on
STATIC_SMEM = cuda_limits().static_smem  # bytes a kernel may declare as __shared__ arrays, on every architecture
DYNAMIC_SMEM = common_smem(_OLDEST)  # bytes a block may ask for on every architecture
LARGEST_SMEM = largest_smem()  # bytes a block may ask for on the architecture that allows most
THREADS_PER_SM = common_threads_per_sm(_OLDEST)
REGISTERS = cuda_limits().registers_per_thread
_WARP, _MOST_THREADS = cuda_limits().warp_size, cuda_limits().threads_per_block


def _archs(limit: str, value: int) -> str:
    """The architectures with the tightest ``limit``: 'sm_86, sm_89 and sm_120'."""
    names = [f"sm_{each.arch}" for each in architectures() if each.arch >= _OLDEST and getattr(each, limit) == value]
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


_ALLOWED_BY = {
    STATIC_SMEM: "a kernel can declare",
    DYNAMIC_SMEM: f"a block can have on {_archs('smem_per_block', DYNAMIC_SMEM)}",
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
        f"({threads}) % {_WARP} == 0 and {_WARP} <= {threads} <= {_MOST_THREADS}",
        f"{{{threads}}} threads, but a block has {_WARP} to {_MOST_THREADS}, a multiple of {_WARP}",
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
        f"but an SM of {_archs('threads_per_sm', THREADS_PER_SM)} holds {THREADS_PER_SM}",
    )
