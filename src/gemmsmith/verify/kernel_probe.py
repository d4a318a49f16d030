"""Single threads of a kernel, walked at many sizes: which launch they belong to, and what they meet."""

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
STEPS_PER_K = 50  # integer instructions of one thread; more is a loop that does not end
_CORNER_THREADS = 16
_WARP = 32
_MOST_PARTS = 8


class Probe:
    """Walks threads, and remembers what they met."""

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

    def _launch(self, problem: Problem) -> tuple[Geometry, dict[str, bytes]] | None:
        try:
            planned = plan_launches(self.spec, self.config, problem, _SAME_WALK, tables=True, alone=True).kernel
        except (GemmsmithError, ArithmeticError, ValueError):
            return None
        if not legal_grid(planned.geometry):
            return None
        filled = [a.filled([*_SAME_WALK, 1 << 40]) if isinstance(a, SlotBytes) else a for a in planned.arguments]
        names = [parameter.name for parameter in self.entry.parameters]
        return planned.geometry, {n: a for n, a in zip(names, filled, strict=False) if isinstance(a, bytes)}

    def _path(self, problem: Problem) -> frozenset[int]:
        """The places in the code that a thread of the first block comes to, which is in no first row or column."""
        launch = self._launch(problem)
        if launch is None:
            return frozenset()
        geometry, arguments = launch
        x, y = (min(1, extent - 1) for extent in geometry.block[:2])
        return self.walk.visited(Thread(geometry, (0, 0, 0), (x, y, 0)), arguments, 4000 + STEPS_PER_K * problem.k)

    def _can_be_followed(self) -> bool:
        """Whether a thread's way is known to its end: it does not hang on what other threads or memory give it."""
        launch = self._launch(self.base)
        steps = 4000 + STEPS_PER_K * self.base.k
        return launch is None or self.walk.follow(Thread(launch[0]), launch[1], steps).complete

    def _first_threads(self, geometry: Geometry) -> list[Dim3]:
        """Every thread of the first warp, and the first one of each row."""
        columns, rows, _ = geometry.block
        row = [(x, 0, 0) for x in range(min(columns, _WARP))]
        return row + [(0, y, 0) for y in range(1, min(rows, _WARP))]

    def _sample_threads(self, geometry: Geometry) -> list[Dim3]:
        step = max(1, geometry.threads // _CORNER_THREADS)
        numbers = {n for first in range(0, geometry.threads, step) for n in (first, first + step - 1)}
        rest = [(n % geometry.block[0], n // geometry.block[0]) for n in sorted(numbers) if n < geometry.threads]
        return [(x, y % geometry.block[1], y // geometry.block[1]) for x, y in rest]

    def _last_blocks(self, geometry: Geometry) -> set[Dim3]:
        x, y, z = geometry.grid
        return {block for part in range(min(z, _MOST_PARTS)) for block in ((x - 1, 0, part), (0, y - 1, part))}

    def _walks_of_threads(self, problem: Problem) -> list[list[Walk]]:
        """What sample threads of the last blocks meet, block by block.

        Not the last block along both: a bound on the flat index parts its threads, and guards no row. Along z may be
        parts of K, of which any may have the last k.
        """
        if problem not in self.walks:
            launch, most = self._launch(problem), 4000 + STEPS_PER_K * problem.k
            self.walks[problem] = [] if launch is None else [
                [self.walk.follow(Thread(launch[0], block, place), launch[1], most)
                 for place in self._sample_threads(launch[0])] for block in self._last_blocks(launch[0])
            ]  # fmt: skip
        return self.walks[problem]
