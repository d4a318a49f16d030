"""One thread's path through a kernel's code, for a product of any size."""

from __future__ import annotations

from gemmsmith.call.launch_plan import PlannedLaunch, plan_launches
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.kernel.slots import SlotBytes
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.ptx.syntax import Entry, Immediate
from gemmsmith.verify.code.thread_walk import Thread, ThreadWalk, Walk
from gemmsmith.verify.trials.extents import legal_grid

_SAME_WALK = Addresses(1 << 40, 1 << 40, 1 << 40, 1 << 40)
_MOST_LAUNCHES = 3  # of one product that are followed
_STEPS_PER_K = 50  # integer instructions of one thread; more is a loop that does not end

Followed = tuple[Geometry, dict[str, bytes]]
"""A launch as a thread's walk needs it: its grid, and its arguments by the names of the entry's parameters."""


def most_steps(problem: Problem) -> int:
    """Of one thread's walk; a longer one is given up."""
    return 4000 + _STEPS_PER_K * problem.k


class PathProbe:
    """Walks single threads at many sizes, and remembers what they met."""

    def __init__(self, spec: KernelSpec, config: Config, entry: Entry, walk: ThreadWalk, base: Problem) -> None:
        self.spec, self.config, self.entry, self.walk, self.base = spec, config, entry, walk, base
        self.known: dict[tuple[Problem, Dim3], list[int]] = {}
        self.walks: dict[Problem, list[list[Walk]]] = {}
        self.left = 0
        self.constants = sorted({o.bits for site in walk.sites for o in site.operands
                                 if isinstance(o, Immediate) and o.kind == "int" and 1 < o.bits < 2**23})  # fmt: skip

    @property
    def _vector(self) -> int:
        """Elements of 16 bytes."""
        return max(1, 16 // self.base.dtype.itemsize)

    def _path(self, problem: Problem) -> frozenset[int]:
        """The places in the code that a thread of the first block comes to, which is in no first row or column."""
        launch = self.launch(problem)
        if launch is None:
            return frozenset()
        geometry, arguments = launch
        x, y = (min(1, extent - 1) for extent in geometry.block[:2])
        return self.walk.visited(Thread(geometry, (0, 0, 0), (x, y, 0)), arguments, most_steps(problem))

    def launch(self, problem: Problem) -> Followed | None:
        """One launch for the whole product; None where there is none."""
        planned = self._planned(problem, alone=True)
        return self._followed(planned[-1]) if planned else None

    def launches(self, problem: Problem) -> list[Followed]:
        """The launches that host code makes of the kernel, of many the first and the last ones. Two kernels that make a
        product together are one kernel here (kernel_chain.py): both of their launches."""
        planned = self._planned(problem, alone=False)
        some = planned if len(planned) <= _MOST_LAUNCHES else (*planned[:1], *planned[1 - _MOST_LAUNCHES :])
        found = [self._followed(each) for each in some]
        return [each for each in found if each is not None] if None not in found else []

    def _planned(self, problem: Problem, alone: bool) -> tuple[PlannedLaunch, ...]:
        try:
            plan = plan_launches(self.spec, self.config, problem, _SAME_WALK, tables=True, alone=alone)
        except (GemmsmithError, ArithmeticError, ValueError):
            return ()
        return *plan.rounds, plan.kernel

    def _followed(self, planned: PlannedLaunch) -> Followed | None:
        if not legal_grid(planned.geometry):
            return None
        filled = [a.filled([*_SAME_WALK, 1 << 40]) if isinstance(a, SlotBytes) else a for a in planned.arguments]
        names = [parameter.name for parameter in self.entry.parameters]
        return planned.geometry, {n: a for n, a in zip(names, filled, strict=False) if isinstance(a, bytes)}
