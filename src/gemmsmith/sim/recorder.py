"""What a launch can be watched by while it runs: the hooks of a recorder. Nothing is called where there is none."""

from __future__ import annotations

from typing import Any, Protocol

from gemmsmith.sim.ptx.types import Array


class Recorder(Protocol):
    """Told what lanes of a wave are about to do. ``machine`` is the wave's machine, ``lanes`` a set of its lanes."""

    def executes(self, machine: Any, step: Any, lanes: Any) -> None:
        """These lanes execute a bundle now: registers are as before it."""

    def arrives(self, machine: Any, step: Any, lanes: Any) -> None:
        """These lanes have come to an instruction at which they wait."""

    def passes(self, machine: Any, step: Any, lanes: Any) -> None:
        """These lanes leave a barrier of their block."""

    def copies(self, machine: Any, operation: Any, lanes: Any, target: Array, source: Array, size: Array) -> None:
        """cp.async: a shared target, a global source and a number of bytes for each lane."""

    def bulk_load(self, machine: Any, operation: Any, lane: int, targets: list[Array], barriers: Array, nbytes: int,
                  source: Any) -> None:  # fmt: skip
        """TMA writes 16-byte chunks at ``targets``, a list for each block, and ``barriers`` count ``nbytes`` each.

        ``source`` is a ``BulkSource``.
        """

    def bulk_store(self, machine: Any, operation: Any, lane: int, chunks: Array, nbytes: int, source: Any) -> None:
        """TMA reads 16-byte chunks of shared memory and writes them to what ``source`` describes."""

    def multiplies(self, machine: Any, step: Any, lanes: Any, of_a: Array | None, of_b: Array) -> None:
        """wgmma: descriptors of A, None for registers, and of B, one for each warp."""

    def completes(self, machine: Any, place: int, phase: int) -> None:
        """The phase of the mbarrier at a byte of the wave's shared memory is complete."""
