"""What a report of check says of the sizes and products that were not tried."""

from __future__ import annotations

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.role_names import is_batch
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.host.host_loops import reader_after
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.trials.check_shapes import CheckShapes


def sampled_note(
    spec: KernelSpec, config: Config, shapes: CheckShapes, blocks: tuple[int, ...] | None, asserted: bool
) -> tuple[str, ...]:
    """Of a kernel at a size that is too large for all of its blocks."""
    if blocks is None:
        return ()
    m, n, k = shapes.base
    total = spec.geometry(spec.problem(*shapes.base), config).blocks
    simulated = f"{len(blocks)} of its {total:,} blocks are simulated"
    if asserted:
        return (f"its asserts refuse small sizes, so {simulated} at {m}x{n}x{k}",)
    return (f"its size is fixed at {m}x{n}x{k}, so {simulated}",)


def tied_note(spec: KernelSpec) -> tuple[str, ...]:
    """Of a kernel that takes its sizes, and for which constants of its file fix them all the same."""
    if spec.is_rung or not spec.signature.fixed or not all(spec.signature.has(role) for role in ("M", "N", "K")):
        return ()
    sizes = ", ".join(f"{role}={extent}" for role, extent in spec.signature.fixed)
    return (f"constants of the file fix its sizes or leading dimensions, so it is judged only at {sizes}",)


def first_product_note(spec: KernelSpec) -> tuple[str, ...]:
    """Of a kernel that is told which product of a batch to make."""
    told = [arg.name for arg in spec.signature.arguments if arg.role == "0" and is_batch(arg.name)]
    if spec.is_rung or not told:
        return ()
    return (f"{told[0]} tells which product of a batch it makes, here the first: where the others lie is not tried",)


def read_on_note(spec: KernelSpec) -> tuple[str, ...]:
    """Of a kernel whose result another kernel goes on with, as far as host code shows it."""
    launch = spec.geometry
    if not isinstance(launch, UserLaunch) or launch.site is None or launch.second is not None:
        return ()
    output = next((i for i, arg in enumerate(spec.signature.arguments) if arg.role == spec.signature.output), None)
    array = launch.array_passed(output) if output is not None else ""
    reader = reader_after(launch.site.site, array) if array else ""
    return (f"what {reader} makes of {array} is not judged",) if reader else ()
