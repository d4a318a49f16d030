"""gemmsmith check of a kernel that is refused as a product: races within its blocks, with made-up arguments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsmith.call.any_kernel.declaration import declared_kernels
from gemmsmith.call.any_kernel.kernel import LaunchKernel, launch_kernel, no_geometry
from gemmsmith.call.launch import DEFAULT_ARCH, Launch
from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.render.excerpt import print_fault
from gemmsmith.cli.render.launch_text import check_json, geometry_line, kernel_line
from gemmsmith.cli.render.output import item, say
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.kernels.name_expression import template_names
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.launches.made_up_launch import MadeUpLaunch
from gemmsmith.verify.faults.explainer import Explainer, explained
from gemmsmith.verify.faults.kernel_source import SourceOfKernel
from gemmsmith.verify.launch_check import LaunchCheck, LaunchTrial, TrialOutcome
from gemmsmith.verify.made_up.block_races import MadeUpRun, RaceSearch, refuse_untold

_SHARED = ".shared"  # in PTX


@dataclass(frozen=True)
class BlockRaces:
    """The races within a block of a kernel that is not understood, as text and as JSON."""

    check: LaunchCheck
    refused: GemmsmithError
    verbose: bool = False

    @property
    def ok(self) -> bool:
        return False

    def conclusion(self) -> str:
        """The verdict in one line."""
        return (f"{self.check.kernel.name} races within a block, whatever it is meant to compute: "
                f"{self.check.outcomes[0].trial.label}")  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        kernel = self.check.kernel
        return check_json(self.check) | {
            "entry": kernel.name, "symbol": kernel.compiled.entry, "status": "racy", "verdict": self.conclusion(),
            "note": self._not_judged, "causes": [], "notes": [],
        }  # fmt: skip

    def show(self) -> None:
        """For people: the launch, the verdict, the races."""
        item(kernel_line(self.check.kernel))
        item(geometry_line(self.check.launch.geometry))
        item(self.conclusion(), "red")
        for fault in self.check.outcomes[0].faults:
            print_fault(fault, "red", self.verbose)
        for reason in self.check.outcomes[0].reasons[self.check.outcomes[0].told :]:
            item(f"  {reason}", "red")
        say(self._not_judged, "dim")

    @property
    def _not_judged(self) -> str:
        return f"its result is not judged: {self.refused.message}"


def block_races(
    path: Path, asked: UserOptions, launch: MadeUpLaunch, cache: CacheOptions, refused: GemmsmithError, verbose: bool
) -> BlockRaces | None:
    """The races of a kernel that was ``refused``; None where there are none, or they cannot be looked for. What was
    tried is added to the hint of the refusal."""
    own = CompileCache(cache.cache_dir) if cache.cache_dir is not None else None
    try:
        template = template_names(launch.facts.kernel)
        spec = KernelSpec(
            path.name, path, launch.entry, "", no_geometry, entry=launch.entry, unit=launch.facts.project.path,
            include=asked.include, extra_defines=tuple(pair for pair in asked.defines if pair[0] not in template),
        )  # fmt: skip
        declared = (each for each in declared_kernels(path, asked.include)
                    if each.qualified == launch.facts.kernel.qualified)  # fmt: skip
        kernel = launch_kernel(spec, next(declared, None), DEFAULT_ARCH, own)
        if _SHARED not in kernel.compiled.ptx:
            return None
        refuse_untold(kernel, launch)
        search = RaceSearch(kernel, launch, DEFAULT_ARCH)
        found = search.found()
    except GemmsmithError:
        return None
    if found is not None:
        return BlockRaces(_as_check(spec, kernel, launch, found), refused, verbose)
    if search.ran:
        tried = "; ".join(dict.fromkeys(map(str, search.ran)))
        refused.hint += f"\nno race within a block was found either, in launches with made-up arguments: {tried}"
    return None


def _as_check(spec: KernelSpec, kernel: LaunchKernel, launch: MadeUpLaunch, run: MadeUpRun) -> LaunchCheck:
    """The launch that races, as the check of a launch has it."""
    geometry = run.geometry
    made = Launch(spec.source, kernel.name, geometry.grid, geometry.block, (), geometry.smem,
                  dict(spec.extra_defines), spec.include, cooperative=geometry.cooperative)  # fmt: skip
    source = SourceOfKernel(spec.source, spec.entry, {**launch.facts.given, **launch.template}, spec.include, spec.unit)
    faults = tuple(explained(lambda: Explainer(source).races(run.races)))
    outcome = TrialOutcome(
        LaunchTrial(f"made-up arguments with {run}"), tuple(map(str, run.races)), (), run.races, (), run.seconds,
        faults, len(run.races) if faults else 0,
    )  # fmt: skip
    return LaunchCheck(made, kernel, f"simulator ({kernel.compiled.arch})", run.arguments, (outcome,), compared=False)
