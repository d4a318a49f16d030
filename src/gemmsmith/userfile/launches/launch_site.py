"""Launches of a kernel in host code, in its own file or elsewhere in its repository, with the calls that lead there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.host.default_arguments import defaults_of, with_defaults
from gemmsmith.userfile.host.function_bodies import calls_of
from gemmsmith.userfile.host.host_choices import path_of
from gemmsmith.userfile.host.host_frame import Asked, Frame, Sizes
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import UnknownValueError, evaluate
from gemmsmith.userfile.kernels.overloads import may_take, was_overloaded
from gemmsmith.userfile.launches.held_kernels import Held, alternatives, held
from gemmsmith.userfile.launches.kernel_tables import assigned, entries, passed_to_lambda
from gemmsmith.userfile.launches.launch_text import launched, split_template
from gemmsmith.userfile.launches.launcher_references import belongs_elsewhere, references
from gemmsmith.userfile.text.parts import FunctionSource, KernelParameter, KernelSource, LaunchText, SourceFile
from gemmsmith.userfile.text.syntax import last_name

_MOST_CALLERS = 12
_MOST_SITES = 72
_MOST_OF_ONE = 24  # of one launch, by the calls that lead there
_LEVELS = 3  # of callers
_PACKED = "__packed"  # between the name of a pack and the number of one of its parameters
_LONGEST = 100  # characters of a launch that are shown


@dataclass(frozen=True)
class LaunchSite:
    """A launch in host code, as texts of its place.

    template       the template arguments that are written out
    configuration  grid, block, dynamic shared memory; "" for what is not given
    cluster        the cluster's extents, if the launch sets them
    arguments      the kernel's arguments, in order
    frame          the place, and the calls that lead there
    """

    kernel: KernelSource
    file: Path
    line: int
    text: str
    template: tuple[str, ...]
    configuration: tuple[str, str, str]
    arguments: tuple[str, ...]
    frame: Frame
    cluster: tuple[str, ...] = ()

    def shown(self) -> str:
        """The place: "runner.cu:132"."""
        return f"{self.file.name}:{self.line}"

    def spelled(self) -> str:
        """The kernel with the template arguments that are written out."""
        return f"{self.kernel.name}<{', '.join(self.template)}>" if self.template else self.text[:_LONGEST]


def launch_sites(project: Project, kernel: KernelSource) -> Iterator[LaunchSite]:
    """Launches of ``kernel``: in the user's file and its headers first, then in the rest of the repository."""
    found = 0
    for source in _sources(project, kernel):
        for site in _sites_in(source, kernel, project):
            yield site
            found += 1
            if found >= _MOST_SITES:
                return


def _sources(project: Project, kernel: KernelSource) -> Iterator[SourceFile]:
    own = project.sources(project.path)
    yield from own
    seen = {source.path.resolve() for source in own}
    home = kernel.file.resolve()
    for file in project.mentioning(kernel.file, kernel.name):
        if file.resolve() in seen or project.read(file) is None:
            continue
        reached = project.sources(file)
        homes = {k.file.resolve() for source in reached for k in source.kernels if k.qualified == kernel.qualified}
        if not homes or home in homes:
            yield reached[0]
            helpers = [each for each in reached[1:] if each.path.resolve() not in seen and _launches_passed(each)]
            seen |= {each.path.resolve() for each in helpers}
            yield from helpers


def _launches_passed(source: SourceFile) -> bool:
    """Whether one of the file's functions launches a kernel that its caller passes."""
    return any(_takes(source.functions[launch.function], launch.kernel) for launch in source.launches)


def _sites_in(source: SourceFile, kernel: KernelSource, project: Project) -> Iterator[LaunchSite]:
    named = kernel.name in source.text
    overloaded = was_overloaded(kernel, (k for each in project.sources(kernel.file) for k in each.kernels))
    for launch in source.launches:
        function = source.functions[launch.function]
        passed = _takes(function, launch.kernel)
        if not named and not passed and launch.kernel.isidentifier():
            continue  # a helper launches what its caller, perhaps in another file, passes; a table may be in a header
        start = Frame(source, project, function, launch.start)
        if overloaded and not may_take(kernel, launch.arguments, HostScope(start, {}, Sizes(), Asked()).declared_type):
            continue
        yield from islice(_sites_of(launch, kernel, start), _MOST_OF_ONE)


def _sites_of(launch: LaunchText, kernel: KernelSource, start: Frame) -> Iterator[LaunchSite]:
    if _names(launch.kernel, kernel, start):
        for frame in _with_callers(start, _LEVELS):
            yield _site(launch, launch.template, kernel, frame)
        return
    if "?" in launch.kernel:
        for frame, template in _held(alternatives(launch.kernel), kernel, start):
            yield _site(launch, template, kernel, frame)
        return
    if re.fullmatch(r"\w+", launch.kernel):
        for frame, template in _indirect(launch.kernel, kernel, start):
            yield _site(launch, template, kernel, frame)
    for frame, template in _from_tables(launch.kernel, kernel, start):
        yield _site(launch, template, kernel, frame)


def _site(launch: LaunchText, template: tuple[str, ...], kernel: KernelSource, frame: Frame) -> LaunchSite:
    how = (*launch.configuration[:3], "", "", "")[:3]
    cluster: tuple[str, ...] = ()
    if launch.config:
        how, cluster = _configured(frame, launch.config)
    arguments = launch.arguments
    if len(arguments) == 1 and arguments[0].startswith("*"):
        arguments = _pointed(frame, arguments[0].lstrip("*& "))
    arguments = tuple(each for text in arguments for each in _expanded(text, frame))
    if arguments:  # else it may be one that is not read: an array of pointers
        arguments = with_defaults(arguments, kernel.name, kernel.parameters, frame.sources)
    grid, block, smem = how
    return LaunchSite(kernel, frame.source.path, launch.line, launch.text, template, (grid, block, smem), arguments,
                      frame, cluster)  # fmt: skip


def _configured(frame: Frame, name: str) -> tuple[tuple[str, str, str], tuple[str, ...]]:
    """Grid, block, shared memory and cluster of a ``cudaLaunchConfig_t``."""
    scope = frame.locals
    variable = scope.variables.get(name)
    is_listed = variable is not None and variable.value.startswith("cudaLaunchConfig_t(")
    listed = split_template(variable.value.partition("(")[2][:-1]) if variable is not None and is_listed else []
    elsewhere = variable is None or (not is_listed and variable.value.endswith(")")) or name in scope.filled
    texts = []
    for place, member in enumerate(("gridDim", "blockDim", "dynamicSmemBytes")):
        set_to = scope.members.get(f"{name}.{member}")
        parts = [scope.members.get(f"{name}.{member}.{axis}") for axis in "xyz"]
        if set_to is not None:
            texts.append(set_to.value)
        elif any(parts):
            texts.append(f"dim3({', '.join(part.value if part else '1' for part in parts)})")
        else:
            own = listed[place] if place < len(listed) and "." not in listed[place][:1] else ""
            texts.append(f"{name}.{member}" if elsewhere and not own else own)
    axes = {m[-1]: v.value for m, v in scope.members.items() if re.search(r"\.val\.clusterDim\.[xyz]$", m)}
    cluster = tuple(axes.get(axis, "1") for axis in "xyz") if axes else ()
    return (texts[0], texts[1], texts[2]), cluster


def _pointed(frame: Frame, name: str) -> tuple[str, ...]:
    """The arguments in an array of pointers: ``void* args[] = {&a, &b}``."""
    variable = frame.locals.variables.get(name)
    if variable is None or not variable.value.startswith("{"):
        return ()
    return tuple(re.sub(r"^(?:\(\s*void\s*\*+\s*\)\s*)?&?\s*\(?\s*(.*?)\s*\)?$", r"\1", part)
                 for part in split_template(variable.value[1:-1]))  # fmt: skip


def _expanded(argument: str, frame: Frame) -> tuple[str, ...]:
    """The parameters of ``_unpacked`` for ``args...`` or ``std::forward<Args>(args)...``; else the argument itself."""
    match = re.search(r"(\w+)\s*\)*\s*\.\.\.$", argument)
    if match is None or frame.function is None:
        return (argument,)
    return tuple(p.name for p in frame.function.parameters if p.name.rpartition(_PACKED)[0] == match[1])


# --- which kernel a launch means


def _names(spelled: str, kernel: KernelSource, frame: Frame) -> bool:
    """Whether ``spelled`` names ``kernel`` there, and not one of the same name in another namespace."""
    spelled = spelled.replace(" ", "").removeprefix("::")
    if spelled.rsplit("::", 1)[-1] != kernel.name:
        return False
    if not ("::" + kernel.qualified).endswith("::" + spelled) and not _foreign(spelled, kernel):
        return False
    known = {k.qualified for source in frame.sources for k in source.kernels if k.name == kernel.name}
    scope = frame.function.scope.split("::") if frame.function is not None and frame.function.scope else []
    for depth in range(len(scope), -1, -1):
        inner = "::".join((*scope[:depth], spelled))
        if inner in known:
            return inner == kernel.qualified
    return True


def _foreign(spelled: str, kernel: KernelSource) -> bool:
    """A spelling by a namespace alias cannot be told; a kernel outside namespaces has none."""
    return "::" in spelled and "::" in kernel.qualified and "::" not in spelled.split("::", 1)[1]


def _indirect(name: str, kernel: KernelSource, frame: Frame) -> Iterator[tuple[Frame, tuple[str, ...]]]:
    """Launches through a variable, or through a parameter, of a template too, that callers pass the kernel for."""
    assert frame.function is not None
    variable = frame.locals.variables.get(name)
    if variable is not None:
        yield from _held(held(name, frame.locals), kernel, frame)
        return
    for called in _callers(frame) if _takes(frame.function, name) else ():
        passed = _passed(called, name)
        if called.caller is None or called.caller.function is None or not passed:
            continue
        spelled, template = launched(passed)
        for entry in entries(spelled, called.caller, kernel.name):
            yield replace(called, caller=entry.frame), entry.template
        local = called.caller.locals.variables.get(spelled)
        if local is not None and local.value:
            spelled, template = launched(local.value)
        if _names(spelled, kernel, called.caller):
            scope = HostScope(called, {}, Sizes(), Asked())
            yield called, tuple(_in_caller(text, scope) for text in template)


def _held(found: Iterable[Held], kernel: KernelSource, frame: Frame) -> Iterator[tuple[Frame, tuple[str, ...]]]:
    """Launches of what is ``found`` in a variable or in an expression, each under the conditions that choose it."""
    for each in found:
        spelled, template = launched(each.text)
        if _names(spelled, kernel, frame):
            for called in _with_callers(replace(frame, when=each.when), _LEVELS):
                yield called, template


def _takes(function: FunctionSource, name: str) -> bool:
    return name in [p.name for p in function.parameters] + [p.name for p in function.template or ()]


def _passed(called: Frame, name: str) -> str:
    """What a call passes for the parameter ``name``, of the function or of its template; empty for nothing."""
    assert called.function is not None
    own, template = called.function.parameters, called.function.template or ()
    pairs = {p.name: text for p, text in zip(template, called.template, strict=False)}
    return (pairs | {p.name: text for p, text in zip(own, called.arguments, strict=False)}).get(name, "")


def _from_tables(expression: str, kernel: KernelSource, frame: Frame) -> Iterator[tuple[Frame, tuple[str, ...]]]:
    """Launches through a table of kernels, of structs with one, or a function that returns one."""
    variable = frame.locals.variables.get(expression)
    meant = variable.value if variable is not None and variable.value else expression
    chosen = *assigned(expression, frame, kernel.name), *passed_to_lambda(expression, frame, kernel.name)
    for entry in (*entries(meant, frame, kernel.name), *chosen):
        if _names(entry.spelled, kernel, frame):
            for each in _with_callers(entry.frame, _LEVELS):
                yield each, entry.template
    struct = re.fullmatch(r"(\w+)\s*(?:\.|->)\s*(\w+)", expression)  # of a struct that the caller passes
    parameters = frame.function.parameters if frame.function is not None and struct is not None else ()
    place = next((i for i, p in enumerate(parameters) if struct is not None and p.name == struct[1]), None)
    for called in _callers(frame) if struct is not None and place is not None else ():
        if called.caller is not None and place is not None and place < len(called.arguments) and struct is not None:
            for entry in entries(f"{called.arguments[place]}.{struct[2]}", called.caller, kernel.name):
                element = (struct[1], *entry.frame.chosen[0][1:])
                yield replace(called, caller=entry.frame, chosen=(element,)), entry.template


def _in_caller(text: str, scope: HostScope) -> str:
    """A template argument written in the caller's scope, as text that is valid in any."""
    outer = scope.outer()
    if outer is None:
        return text
    try:
        if re.fullmatch(r"[A-Za-z_][\w:]*", text):
            return str(outer.value(path_of(text)))
        value = evaluate(text, outer)
    except UnknownValueError:
        return outer.type_of(text)
    return str(value) if isinstance(value, int) else text


# --- callers


def callers_of(site: LaunchSite, most: int | None = None) -> Iterator[LaunchSite]:
    """The launch as each of the calls that are known leads there; itself if none is, or more than ``most`` are."""
    listed = None if most is None else most + 2
    frames = [site.frame] if site.frame.caller is not None else [*islice(_with_callers(site.frame, _LEVELS), listed)]
    frames = frames[:1] if listed is not None and len(frames) == listed else frames
    yield from (replace(site, frame=frame) for frame in frames if frame.caller is not None or len(frames) == 1)


def _with_callers(frame: Frame, levels: int) -> Iterator[Frame]:
    """``frame`` on its own, then with each call of its function."""
    yield frame
    function = frame.function
    if function is None or not (function.parameters or function.template) or levels == 0 or function.name == "main":
        return
    for called in _callers(frame):
        if called.caller is None or called.caller.caller is not None:
            yield called
            continue
        for outer in _with_callers(called.caller, levels - 1):
            yield replace(called, caller=outer)


def _callers(frame: Frame, policies: bool = True) -> Iterator[Frame]:
    """``frame`` with each explicit instantiation, each reference and each call of its function. With ``policies``,
    calls of a member of a template's parameter have callers of their own."""
    function = frame.function
    assert function is not None
    owner = re.sub(r"<[^()]*>", "", function.scope).rpartition("::")[2]  # its class
    found, names = 0, {function.name, owner}
    for source in _mentioning(frame):
        for instance in source.instantiations:
            if instance.name in names and function.template:
                yield replace(frame, template=instance.template)
                found += 1
        named = references(source, frame.project, function.name, function) if function.template else ()
        for outer, template in named:
            yield replace(frame, caller=outer, arguments=(), template=template)
            found += 1
        for other in source.functions:
            if other is function or function.name not in other.body:
                continue
            for start, called, arguments in calls_of(other, function.name):
                outer = Frame(source, frame.project, other, start)
                if belongs_elsewhere(_owner(called), function, outer):
                    continue
                whole = _unpacked(function, len(arguments))
                if len(arguments) < len(whole.parameters):
                    whole = _with_declared(whole, outer)
                required = sum(1 for p in whole.parameters if not p.default)
                if required <= len(arguments) <= len(whole.parameters):
                    made = replace(frame, function=whole, arguments=arguments, template=_template_of(called, outer))
                    for each in _of_policy(_owner(called), function, outer) if policies else (outer,):
                        yield replace(made, caller=each)
                        found += 1
                if found >= _MOST_CALLERS:
                    return


def _of_policy(owner: str, function: FunctionSource, outer: Frame) -> Iterator[Frame]:
    """``outer`` itself. Where the class of the called member is a parameter of ``outer``'s template, as in
    ``Policy::run(grid, block)``: as those calls lead there that pass the class of ``function`` for it, if any does."""
    names = [p.name for p in (outer.function.template if outer.function is not None else None) or ()]
    meant = function.scope.rsplit("::", 1)[-1]
    bound = _callers(outer, policies=False) if owner in names and meant else ()
    passed = [each for each in bound if last_name(_passed(each, owner)) == meant]
    yield from passed or [outer]


def _with_declared(function: FunctionSource, frame: Frame) -> FunctionSource:
    """A function with the defaults of a prototype that the caller sees."""
    defaults = defaults_of(function.name, function.parameters, frame.sources)
    pairs = zip(function.parameters, defaults, strict=True)
    return replace(function, parameters=tuple(replace(each, default=text) for each, text in pairs))


def _owner(called: str) -> str:
    """The namespaces and classes of a called function as written: "a::b" of ``a::b<3>::f<float>``."""
    bare = re.sub(r"<[^()]*?>|\s", "", called)
    return bare.rpartition("::")[0] if re.fullmatch(r"\w+(?:::\w+)+", bare) else ""


def _template_of(called: str, frame: Frame) -> tuple[str, ...]:
    """The template arguments of a called function, or else of the class that it is a member of."""
    own = launched(called)[1]
    owner, qualified, _ = called.rpartition("::")
    if own or not qualified:
        return own
    return launched(HostScope(frame, {}, Sizes(), Asked()).type_of(owner))[1]


def _unpacked(function: FunctionSource, count: int) -> FunctionSource:
    """A function with a pack, ``Args... args``, as a call with ``count`` arguments sees it."""
    *others, last = function.parameters or (KernelParameter("", ""),)
    if "..." not in last.type + last.name:
        return function
    name = last.name.lstrip(". ")
    packed = (KernelParameter("", f"{name}{_PACKED}{i}") for i in range(count - len(others)))
    return replace(function, parameters=(*others, *packed))


def _mentioning(frame: Frame) -> Iterator[SourceFile]:
    """Sources that may call the frame's function: its own file, the user's, then the rest of the repository."""
    assert frame.function is not None
    project = frame.project
    own = {source.path.resolve(): source for source in (frame.source, *project.sources(project.path))}
    yield from own.values()
    if re.search(r"\bstatic\b", frame.function.head) and frame.source.path.suffix == ".cu":
        return
    for file in project.mentioning(frame.source.path, frame.function.name):
        source = project.read(file) if file.resolve() not in own else None
        # A file with such a function of its own calls that.
        if source is not None and not any(_same_head(frame.function, each) for each in source.functions):
            yield source


def _same_head(one: FunctionSource, other: FunctionSource) -> bool:
    return (one.name, one.scope, len(one.parameters)) == (other.name, other.scope, len(other.parameters))
