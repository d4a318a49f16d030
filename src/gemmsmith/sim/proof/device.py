"""A simulator on which every value of a matrix has an image in the field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.proof.images import Cells, Image
from gemmsmith.sim.proof.rules import instrumented
from gemmsmith.sim.proof.session import Session
from gemmsmith.sim.schedule import Schedule, schedule_named

_HALVES = re.compile(r"\b(b?f16(x2)?|[bus]16|prmt)\b")


def smallest_unit(ptx: str, itemsize: int) -> int:
    """The bytes that need an image of their own: those of the smallest number that the program handles."""
    if itemsize == 1:
        return 1
    return 2 if itemsize == 2 or _HALVES.search(ptx) else 4


class ProofDevice(SimDevice):
    """Runs kernels in lockstep, or in another order of warps; copies land at once.

    Products are not contracted with sums: images do not change, and an error bound with two roundings holds for one.
    """

    contracts = False

    def __init__(
        self, session: Session, arch: str, schedule: Schedule | None = None, timeout: float = math.inf
    ) -> None:
        super().__init__(arch, schedule or schedule_named("lockstep"), timeout=timeout)
        self.session = session
        self.scalars: Mapping[int, Image] = {}
        self.entry = ""

    def load(self, compiled: CompiledKernel) -> LoadedPtx:
        plain = self.load_ptx(compiled.ptx, compiled.entry)
        return LoadedPtx(plain.entry, instrumented(plain.lowered, self.session))

    def launch(self, loaded: LoadedPtx, launch: Launch, blocks: Sequence[int] | None = None) -> None:
        """The scalars of ``entry`` have images too, by the number of their argument."""
        self.session.parameters = self._parameters(loaded, launch)
        super().launch(loaded, launch, blocks)

    def _parameters(self, loaded: LoadedPtx, launch: Launch) -> Cells:
        offset, unit = 0, self.session.unit
        cells = Cells(-(-sum(len(a) + 16 for a in launch.arguments) // unit))
        for number, parameter in enumerate(loaded.entry.parameters):
            offset = -(-offset // parameter.align) * parameter.align
            if loaded.entry.name == self.entry and number in self.scalars:
                self.session.place(cells, np.array([offset]), self.scalars[number])
            offset += parameter.size
        return cells
