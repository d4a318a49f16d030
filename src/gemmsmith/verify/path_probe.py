"""One thread's path through a kernel's code, for a product of any size."""

from __future__ import annotations

from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.kernel.slots import SlotBytes
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.syntax import Entry, Immediate
from gemmsmith.verify.extents import legal_grid
from gemmsmith.verify.thread_walk import Thread, ThreadWalk, Walk

_SAME_WALK = Addresses(1 << 40, 1 << 40, 1 << 40, 1 << 40)
_STEPS_PER_K = 50  # integer instructions of one thread; more is a loop that does not end


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

    def launch(self, problem: Problem) -> tuple[Geometry, dict[str, bytes]] | None:
        try:
            planned = plan_launches(self.spec, self.config, problem, _SAME_WALK, tables=True, alone=True).kernel
        except (GemmsmithError, ArithmeticError, ValueError):
            return None
        if not legal_grid(planned.geometry):
            return None
        filled = [a.filled([*_SAME_WALK, 1 << 40]) if isinstance(a, SlotBytes) else a for a in planned.arguments]
        names = [parameter.name for parameter in self.entry.parameters]
        return planned.geometry, {n: a for n, a in zip(names, filled, strict=False) if isinstance(a, bytes)}
