"""The template values of a kernel that no launch tells: those of an instance that the sources name.

template __global__ void gemm<float, 16>(const float*, const float*, float*, int, int, int);
cudaFuncSetAttribute(gemm<float, 16>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.host.host_frame import Asked, Frame, Sizes
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import UnknownValueError, evaluate_int
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.launcher_references import references
from gemmsmith.userfile.text.parts import KernelSource, SourceFile


def named_instance(project: Project, kernel: KernelSource) -> tuple[dict[str, str], FoundValue] | None:
    """The values of the first instance whose values are all known, and where it is named; None if there is none."""
    parameters = kernel.template or ()
    needed = sum(1 for parameter in parameters if not parameter.default and not parameter.pack)
    for source in _sources(project, kernel) if needed else ():
        for template, frame, line in _instances(source, project, kernel.name):
            if not needed <= len(template) <= len(parameters) or any(parameter.pack for parameter in parameters):
                continue
            values: dict[str, str] = {}
            for parameter, text in zip(parameters, template, strict=False):
                known = _known(text, parameter.kind == "typename", HostScope(frame, {}, Sizes(), Asked()))
                if not known:
                    break
                values[parameter.name] = known
            else:
                shown = ", ".join(f"{name}={value}" for name, value in values.items())
                place = f"{source.path.name}:{line}"
                return values, FoundValue("template", shown, place, f"{kernel.name}<{', '.join(template)}>")
    return None


def template_values(
    project: Project, kernel: KernelSource, site: SiteValues | None, given: Mapping[str, str]
) -> tuple[dict[str, str], FoundValue | None]:
    """The template's values that a launch tells, else those of an instance that the sources name, and where that is."""
    if site is not None:
        return site.template()[0], None
    return (None if given else named_instance(project, kernel)) or ({}, None)


def _sources(project: Project, kernel: KernelSource) -> Iterator[SourceFile]:
    own = project.sources(project.path)
    yield from own
    seen = {source.path.resolve() for source in own}
    for file in project.mentioning(kernel.file, kernel.name):
        source = project.read(file) if file.resolve() not in seen else None
        if source is not None and not any(each.name == kernel.name for each in source.kernels):  # of a namesake there
            yield source


def _instances(source: SourceFile, project: Project, name: str) -> Iterator[tuple[tuple[str, ...], Frame, int]]:
    for each in source.instantiations:
        if each.name.rsplit("::", 1)[-1] == name:
            yield each.template, Frame(source, project), each.line
    for frame, template in references(source, project, name):
        function = frame.function
        line = function.body_line + function.body.count("\n", 0, frame.start) if function is not None else 1
        yield template, frame, line


def _known(text: str, is_type: bool, scope: HostScope) -> str:
    """A template argument as text that is valid anywhere; empty if it is not known."""
    if is_type:
        return scope.type_of(text)
    try:
        return str(evaluate_int(text, scope))
    except (UnknownValueError, RecursionError):
        return ""
