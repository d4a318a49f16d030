"""Products that host code does not launch a kernel for: no failure there counts as one of the kernel."""

from __future__ import annotations

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.found_value import FoundValue
from gemmsmith.userfile.launch_conditions import HostCondition, Launched
from gemmsmith.userfile.launch_limits import LaunchLimits


def launched(spec: KernelSpec, problem: Problem) -> Launched:
    """Whether host code launches the kernel for a product, as far as its conditions tell."""
    return spec.geometry.launched(problem) if isinstance(spec.geometry, LaunchLimits) else Launched()


def excluded(spec: KernelSpec, problem: Problem) -> HostCondition | None:
    """The condition of host code that rules a product out."""
    return launched(spec, problem).excluded


def one_value_scalars(spec: KernelSpec) -> tuple[FoundValue, ...]:
    """Alpha and beta, where host code has one value of them for this kernel."""
    return spec.geometry.scalars if isinstance(spec.geometry, LaunchLimits) else ()
