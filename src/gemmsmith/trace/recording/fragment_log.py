"""Matrix instructions: who consumes which elements, and some executions in full, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.memory.wgmma_descriptor import decode, k_major, mn_major
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP
from gemmsmith.trace.launch_trace import Fragment
from gemmsmith.trace.recording.fed import Consumed
from gemmsmith.trace.recording.matrix_maps import Held, mma_maps, wgmma_maps
from gemmsmith.trace.recording.provenance import Provenance

_K_BYTES = 32  # of every wgmma
_UNIT = 16
_WARPS = 4  # of a warpgroup
_MOST_OF_FIRST, _MOST_OF_OTHERS, _MOST_WGMMA = 24, 2, 6


class FragmentLog:
    """Keeps the first executions of the first warp, and a few of the others."""

    def __init__(self, provenance: Provenance, consumed: Consumed) -> None:
        self.provenance, self.consumed = provenance, consumed
        self.kept: list[Fragment] = []
        self._of_warp: dict[int, int] = {}

    # -- mma.sync ---------------------------------------------------------------------------------

    def mma(self, step: Bundle[Any], threads: Array, clocks: dict[int, int]) -> None:
        """A bundle of mma.sync by whole warps; ``clocks`` has the slot of each warp."""
        form = step.detail
        if not hasattr(form, "registers"):
            return  # m8n8k4 of fp16, with layouts of its own
        maps = mma_maps(form.registers, form.unit, form.accumulator, form.rows)
        of_a, of_b = form.registers[:2]
        a = self._matrix(step, step.sources[:of_a], threads, maps[0], form.unit)
        b = self._matrix(step, step.sources[of_a : of_a + of_b], threads, maps[1], form.unit)
        lane_rows, lane_columns = _of_lanes(maps[2])
        self._use(threads, a[0][:, :, lane_rows], b[0].swapaxes(2, 3)[:, :, lane_columns])
        for n, operation in enumerate(step.operations):
            for w, warp in enumerate((threads[::WARP] // WARP).tolist()):
                if self._wants(warp, _MOST_OF_FIRST):
                    self.kept.append(Fragment(
                        warp=warp, start=clocks[warp], instruction=operation.position, rows=maps[2].lane.shape[0],
                        columns=maps[2].lane.shape[1], depth=maps[0].lane.shape[1], a_held=maps[0].packed(),
                        b_held=maps[1].packed(), d_held=maps[2].packed(), a_of=_flat(a[0][n, w], 0),
                        b_of=_flat(b[0][n, w], 0), a_shared=_flat(a[1][n, w], -1), b_shared=_flat(b[1][n, w], -1),
                        name=operation.instruction.name,
                    ))  # fmt: skip

    def _matrix(self, step: Bundle[Any], sources: Any, threads: Array, held: Held, size: int) -> tuple[Array, Array]:
        """(operations, warps, rows, columns) tags of elements, and bytes of shared memory plus one."""
        tags = np.stack([self.provenance.get(s, threads, step.count) for s in sources], axis=2)
        first = held.element * max(1, size // self.provenance.granule)
        if first.max() >= tags.shape[3]:  # elements smaller than a granule
            first = first * size // self.provenance.granule
        lanes = tags.reshape(*tags.shape[:4], -1, WARP)
        found = lanes[:, :, held.register, np.minimum(first, tags.shape[3] - 1), :, held.lane]
        # advanced indices first: (rows, columns, 2, operations, warps)
        found = np.moveaxis(found, (0, 1), (-2, -1))
        return found[0], found[1]

    # -- wgmma ------------------------------------------------------------------------------------

    def wgmma(self, step: Bundle[Any], threads: Array, of_a: Array | None, of_b: Array,
              clocks: dict[int, int]) -> list[list[int]]:  # fmt: skip
        """A wgmma by whole warps of the block; descriptors have one entry for each warp.

        Returns the first and last byte of shared memory that each warp reads of A (if it is there) and of B.
        """
        form, detail = step.detail.form, step.detail
        in_registers, d = wgmma_maps(form.columns, form.accumulator, form.size)
        lane_rows, lane_columns = _of_lanes(d)
        warps = (threads[::WARP] // WARP).tolist()
        parts = []
        for n, warp in enumerate(warps):
            mine = threads[n * WARP : (n + 1) * WARP]
            b_at = _addresses(of_b[n], np.arange(form.columns), form.size, detail.transpose_b)
            b_of = self.provenance.at_shared(b_at, form.size)[..., 0]
            if of_a is None:
                found = self._matrix(step, step.sources[:4], mine, in_registers, form.size)
                a_of, a_at = found[0][0, 0], found[1][0, 0] - 1
            else:
                rows = 16 * (warp % _WARPS) + np.arange(16)
                a_at = _addresses(of_a[n], rows, form.size, detail.transpose_a)
                a_of = self.provenance.at_shared(a_at, form.size)[..., 0]
            self._use(mine, a_of[None, None][:, :, lane_rows], b_of[None, None][:, :, lane_columns])
            parts.append((warp, a_of, a_at, b_of, b_at))
        ends = form.size - 1
        reads = [[*([] if of_a is None else [int(a_at.min()), int(a_at.max()) + ends]), int(b_at.min()),
                  int(b_at.max()) + ends] for _, _, a_at, _, b_at in parts]  # fmt: skip
        if warps and warps[0] % _WARPS == 0 and self._wants(warps[0], _MOST_WGMMA):
            self._keep(step, parts[:_WARPS], d, of_a is None, int(of_b[0]), clocks)
        return reads

    def _keep(self, step: Bundle[Any], parts: list[Any], d: Held, in_registers: bool, descriptor: int,
              clocks: dict[int, int]) -> None:  # fmt: skip
        form = step.detail.form
        warp, _, _, b_of, b_at = parts[0]
        a_of = np.concatenate([part[1] for part in parts])
        a_at = np.concatenate([part[2] for part in parts])
        held = wgmma_maps(form.columns, form.accumulator, form.size)[0]
        of_a = held.packed() * len(parts) if in_registers else (-1,) * a_of.size
        self.kept.append(Fragment(
            warp, clocks[warp], step.first.position, 16 * len(parts), form.columns, _K_BYTES // form.size, of_a,
            (-1,) * b_of.size, d.packed() * len(parts), _flat(a_of, 0), _flat(b_of.T, 0), _flat(a_at + 1, -1),
            _flat(b_at.T + 1, -1), step.first.instruction.name,
            int(decode(np.array([descriptor], np.uint64)).span[0]),
        ))  # fmt: skip

    # -- both -------------------------------------------------------------------------------------

    def _use(self, threads: Array, a: Array, b: Array) -> None:
        """``a`` and ``b`` are (operations, warps, 32 lanes, …, K)."""
        for tags in (a, b):
            flat = np.moveaxis(tags.reshape(tags.shape[0], tags.shape[1] * WARP, -1), 1, -1)
            self.consumed.use(threads, flat)

    def _wants(self, warp: int, most: int) -> bool:
        seen = self._of_warp.get(warp, 0)
        self._of_warp[warp] = seen + 1
        first = min(self._of_warp)
        return seen < (most if warp == first else _MOST_OF_OTHERS)


def _addresses(descriptor: Any, rows: Array, size: int, transposed: bool) -> Array:
    """(rows, K) bytes of shared memory of an operand's elements."""
    fields = decode(np.array([descriptor], np.uint64))
    found: Array
    if transposed:
        found = mn_major(fields, rows, _K_BYTES // size)[0]
    else:
        units = k_major(fields, rows, _K_BYTES)[0]
        found = (units[..., None] + np.arange(0, _UNIT, size)).reshape(rows.size, -1)
    return found


def _of_lanes(d: Held) -> tuple[Array, Array]:
    """The rows (32, …) and columns (32, …) of D that each lane holds."""
    rows: list[list[int]] = [[] for _ in range(WARP)]
    columns: list[list[int]] = [[] for _ in range(WARP)]
    for (row, column), lane in np.ndenumerate(d.lane):
        if row not in rows[lane]:
            rows[lane].append(row)
        if column not in columns[lane]:
            columns[lane].append(column)
    return np.array(rows), np.array(columns)


def _flat(values: Array, shift: int) -> tuple[int, ...]:
    """By rows; 0, which means nothing, becomes −1, and others are shifted."""
    return tuple(np.where(values == 0, -1, values + shift).reshape(-1).tolist())
