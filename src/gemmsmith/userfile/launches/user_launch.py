"""How a user's kernel is launched: as given, as host code does it, or inferred from the kernel's text."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Self

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.expressions import evaluate, split
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.assumed_parts import ASSUMED_PARTS
from gemmsmith.userfile.host.device_properties import ASSUMED_SMS
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.host.host_frame import Asked, Frame, Sizes
from gemmsmith.userfile.host.host_tensor_maps import HostMap
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import evaluate_int
from gemmsmith.userfile.kernels.kernel_facts import SAMPLE, KernelFacts, problem_sizes
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.launches.launch_guess import LaunchGuess
from gemmsmith.userfile.launches.launch_products import LaunchProducts
from gemmsmith.userfile.launches.launch_rounds import LaunchRounds
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.launch_versions import LaunchVersions
from gemmsmith.userfile.launches.one_extent import LaunchOfOneSize
from gemmsmith.userfile.launches.passed_values import PassedValues
from gemmsmith.userfile.launches.site_roles import roles_of
from gemmsmith.userfile.text.kernel_patterns import BLOCK_INDEX, BLOCKS_TAKE_TILES, CLUSTER_DIMS, GRID_SYNC

_MOST_THREADS = cuda_limits().threads_per_block


class UserLaunch(LaunchRounds, LaunchProducts, LaunchVersions, LaunchOfOneSize, PassedValues):
    """Grid, block and shared memory of a user's kernel for any problem."""

    def __init__(
        self, facts: KernelFacts, site: SiteValues | None, template: Mapping[str, str], options: UserOptions
    ) -> None:
        self.facts, self.site, self.template, self.options = facts, site, template, options
        self.constants = facts.values(template)
        self.signature = Signature(facts.kernel.name, ())
        self.maps: tuple[HostMap, ...] = ()
        self.notes: tuple[FoundValue, ...] = ()  # what was read another way than it is written
        self.swapped = self.flipped = self.padded = self.one_launch = False
        self.second: LaunchSite | None = None  # of a kernel that finishes the product (kernel_chain.py)
        self.computed: frozenset[int] = frozenset()  # places of integers that host code computes for both of them
        self.products = ""
        self.described = ""  # where a comment describes the launch
        self._known: dict[tuple[Problem, Config], Geometry | UsageError] = {}  # of this launch, not of copies

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _known={})
        return other

    def with_maps(self, maps: tuple[HostMap, ...]) -> UserLaunch:
        """The same launch, with the tensor maps that its host code encodes."""
        other = copy.copy(self)
        other.maps = maps
        return other

    def read_as(self, signature: Signature) -> Self:
        """The same launch where the parameters mean something else; a column-major kernel has M and N swapped."""
        other = copy.copy(self)
        for known in ("in_rounds", "counts_products", "_is_exchanged"):
            other.__dict__.pop(known, None)
        other.swapped = signature.column_major
        other.signature = signature.transposed() if other.swapped else signature
        if self.site is not None:
            other.site = SiteValues(self.site.site, roles_of(other.signature), self.site.given)
        return other

    def padded_as_allocated(self) -> UserLaunch:
        """The same launch, for operands followed by the zeros that host code allocates room for."""
        other = copy.copy(self)
        other.padded = True
        return other

    def __call__(self, problem: Problem, config: Config) -> Geometry:
        key = problem, config
        if key not in self._known:
            try:
                self._known[key] = self._geometry(problem, config)
            except UsageError as error:
                self._known[key] = error.with_traceback(None)
        known = self._known[key]
        if isinstance(known, UsageError):
            raise copy.copy(known)
        return known

    def _geometry(self, problem: Problem, config: Config) -> Geometry:
        if self.swapped:
            problem = problem.with_(m=problem.n, n=problem.m)
        names = {**self.constants, **dict(config.values), **_named_sizes(problem)}
        block = self._triple("block", names) if self.options.block else self._site(1, problem) or self._guess().block()
        if not self.options.block and block != self._usual_block and self._is_for_others(problem):
            shape = f"{problem.m}x{problem.n}x{problem.k}"
            raise UsageError(f"for {shape} its host code launches another version, with blocks of {_shown(block)}",
                             "give another shape, or --block and --grid")  # fmt: skip
        grid = self._triple("grid", names) if self.options.grid else self._site_grid(problem, block)
        if (grid is None and self._launches_nothing(problem, block)) or self.shares_nothing(problem):
            raise UsageError(f"for {problem.m}x{problem.n}x{problem.k} its host code launches no blocks",
                             "give a larger shape, or --grid")  # fmt: skip
        grid = grid or self._guess().grid(problem, block)
        if problem.batch > 1 and grid[2] == 1 and "blockIdx.z" in self.facts.reached:
            grid = grid[0], grid[1], problem.batch
        smem = evaluate(self.options.smem, names) if self.options.smem else self.dynamic_smem(problem)
        if smem < 0:
            raise UsageError(f"--smem {self.options.smem} is {smem}, which is negative")
        return Geometry(grid, block, smem, self._cluster(problem), cooperative=self.cooperative)

    def _launches_nothing(self, problem: Problem, block: Dim3) -> bool:
        """Whether host code rounds its grid down to nothing, or has tensor maps whose boxes are for its own grid."""
        site = self.site if self._site(0, SAMPLE) is not None else None
        rounded = site is not None and self._site(1, problem) == block and site.has_no_blocks(problem_sizes(problem))
        return rounded or (site is not None and bool(self.maps))

    @cached_property
    def _usual_block(self) -> Dim3 | None:
        """The launch site's block for a large square."""
        return self._site(1, SAMPLE)

    def _is_for_others(self, problem: Problem) -> bool:
        """Whether host code reaches this launch for a large square and not for ``problem``."""
        if self.site is None or self._usual_block is None:
            return False
        return self.site.is_reached(problem_sizes(SAMPLE)) and not self.site.is_reached(problem_sizes(problem))

    @property
    def cooperative(self) -> bool:
        """Whether host code launches it so that its blocks may wait for one another, or it needs that."""
        launched = self.site is not None and "LaunchCooperativeKernel" in self.site.site.text
        return launched or bool(GRID_SYNC.search(self.facts.reached))

    def _guess(self) -> LaunchGuess:
        return LaunchGuess(self.signature, self.facts.kernel.body, self.facts.reached, self.facts.kernel.bounds,
                           self.constants, self.flipped)  # fmt: skip

    def sources(self, problem: Problem) -> tuple[str, str]:
        """Where block and grid come from: "given", "launch site" or "guessed"."""
        if self.swapped:
            problem = problem.with_(m=problem.n, n=problem.m)
        names = {**self.constants, **_named_sizes(problem)}
        block = self._triple("block", names) if self.options.block else self._site(1, problem)
        said = "given" if self.options.block else "launch site" if block else "guessed"
        if self.options.grid:
            return said, "given"
        return said, "launch site" if block and self._site_grid(problem, block) else "guessed"

    def found(self, problem: Problem) -> tuple[FoundValue, ...]:
        """Every value that host code tells, with its place and text."""
        if self.site is None:
            return self.notes
        if self.swapped:
            problem = problem.with_(m=problem.n, n=problem.m)
        site, lines = self.site.site, [*self.notes, *self.scalars]
        values = [f"{name}={value}" for name, value in self.template.items() if name not in self.facts.given]
        if values:
            lines.append(FoundValue("template", ", ".join(values), site.shown(), site.spelled()))
        block = self._site(1, problem)
        if block is not None and not self.options.block:
            lines.append(FoundValue("block", _shown(block), *self.site.origin(1)))
        if not self.options.grid and block is not None and (grid := self._site_grid(problem, block)):
            asked = self.site.extent(0, problem_sizes(problem))[1] if self.only_equal is None else Asked()
            what = f"grid (for {ASSUMED_SMS} SMs)" if asked.assumed else "grid"
            what = f"grid (with {ASSUMED_PARTS} splits of K, assumed)" if asked.parts else what
            what = f"grid ({taken})" if (taken := self.site.taken(problem_sizes(SAMPLE))) else what
            lines.append(FoundValue(what, _shown(grid), *self.site.origin(0)))
        if site.configuration[2] not in ("", "0", "0U") and not self.options.smem:
            lines.append(FoundValue("smem", self.shown_smem(problem), *self.site.origin(2)))
        for place, value in self.passed_values(problem).items():
            what = f"{self.site.roles.names[place]}, as host code computes it,"
            lines.append(FoundValue(what, f"{float(value):g}", site.shown(), site.text))
        lines += self.found_maps(problem)
        if self.second is not None:
            grid, block, _ = self.second_launch(problem)
            shown = f"grid {_shown(grid)}, block {_shown(block)}"
            lines.append(FoundValue(f"then {self.second.kernel.name}", shown, self.second.shown(), self.second.text))
        return tuple(lines)

    def _triple(self, what: str, names: Mapping[str, int]) -> Dim3:
        text: str = getattr(self.options, what)
        parts = split(text)
        if not 1 <= len(parts) <= 3:
            raise UsageError(f"--{what} {text!r} has {len(parts)} parts", "write one to three expressions: x[,y[,z]]")
        try:
            values = [evaluate(part, names) for part in parts] + [1] * (3 - len(parts))
        except UsageError as error:
            raise UsageError(f"--{what}: {error.message}", error.hint) from None
        if min(values) < 1:
            example = "16,16" if what == "block" else "'ceil(N/16),ceil(M/16)'"
            raise UsageError(
                f"--{what} {text!r} is {tuple(values)}; each part must be at least 1", f"for example --{what} {example}"
            )
        if what == "block" and (threads := math.prod(values)) > _MOST_THREADS:
            raise UsageError(f"--block {text!r} has {threads:,} threads; a block has at most {_MOST_THREADS:,}")
        return values[0], values[1], values[2]

    def _site(self, index: int, problem: Problem) -> Dim3 | None:
        """Grid (0) or block (1) at the launch site. A grid that does not depend on M, N or K fits one problem only, as
        does a kernel whose sizes are constants."""
        if self.site is None:
            return None
        if index == 0 and self.only_equal is not None:
            return self.only_equal(problem.m, problem.n, self._guess().x_walks_rows())
        try:
            found, asked = self.site.extent(index, problem_sizes(problem))
            lacking = self.site.grid_lacks(problem_sizes(problem)) if index == 0 else ""
            if lacking and lacking not in self.signature.tied:  # one parameter may be both M and N
                return None
        except (GemmsmithError, RecursionError):
            return None
        walks = asked.sized or "gridDim" in self.facts.reached or self.site.shares_constants(self.facts.constants_used)
        walks = walks or BLOCKS_TAKE_TILES.search(self.facts.reached) is not None  # blocks take tile after tile
        walks = walks or (found == (1, 1, 1) and BLOCK_INDEX.search(self.facts.reached) is None)  # one makes all of C
        walks = walks or self._is_exchanged or (asked.assumed and self.shares_out(problem))
        return found if index or walks or self.signature.fixed else None

    def _site_grid(self, problem: Problem, block: Dim3) -> Dim3 | None:
        """The launch site's grid, which is valid only with the launch site's block."""
        return self._site(0, problem) if self._site(1, problem) == block else None

    def _compiled_cluster(self) -> Dim3:
        """The kernel's own ``__cluster_dims__``."""
        match = CLUSTER_DIMS.search(self.facts.kernel.head)
        if match is None:
            return 1, 1, 1
        scope = HostScope(Frame(self.facts.own, self.facts.project), {n: str(v) for n, v in self.constants.items()},
                          Sizes(), Asked())  # fmt: skip
        try:
            given = [evaluate_int(part, scope) for part in split(match[1])]
        except (UsageError, RecursionError):
            return 1, 1, 1
        x, y, z = [*given, 1, 1, 1][:3]
        return x, y, z

    def _cluster(self, problem: Problem) -> Dim3:
        if self.site is None or not self.site.site.cluster:
            return self._compiled_cluster()
        try:
            return self.site.cluster(problem_sizes(problem))
        except (UsageError, RecursionError):
            return 1, 1, 1


def _named_sizes(problem: Problem) -> dict[str, int]:
    return {"M": problem.m, "N": problem.n, "K": problem.k, "BATCH": problem.batch, "batch": problem.batch}


def _shown(extent: Dim3) -> str:
    return "x".join(map(str, extent[:2] if extent[2] == 1 else extent))
