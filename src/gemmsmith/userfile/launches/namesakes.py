"""Whether a launch in another file may be of another kernel of the same name.

Two files that are linked in turn may each define ``gemm``. A third file launches it through a prototype, so nothing in
the sources tells which of the two the launch is made for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.text.parts import KernelSource


def namesake(project: Project, site: LaunchSite, kernel: KernelSource) -> Path | None:
    """A file with another kernel that ``site`` may launch as well; None where includes or folders decide."""
    home, here = kernel.file.resolve(), site.file.resolve()
    if here == home or any(_defines(project, file, kernel) for file in (site.file, *_callers(site))):
        return None
    others = [file for file in project.mentioning(kernel.file, kernel.name)
              if file.resolve() not in (home, here) and _is_defined_in(project, file, kernel)]  # fmt: skip
    beside = [file for file in others if file.resolve().parent == here.parent]
    if home.parent == here.parent and not beside:
        return None
    return others[0] if others else None


def _callers(site: LaunchSite) -> Iterator[Path]:
    """The files with the calls that lead to a launch: one passes the kernel on to a harness."""
    frame = site.frame.caller
    while frame is not None:
        yield frame.source.path
        frame = frame.caller


def _defines(project: Project, file: Path, kernel: KernelSource) -> bool:
    """Whether ``file`` or what it includes has the kernel itself."""
    return any(each.file.resolve() == kernel.file.resolve() and each.qualified == kernel.qualified
               for source in project.sources(file) for each in source.kernels)  # fmt: skip


def _is_defined_in(project: Project, file: Path, kernel: KernelSource) -> bool:
    source = project.read(file)
    return source is not None and any(each.qualified == kernel.qualified for each in source.kernels)
