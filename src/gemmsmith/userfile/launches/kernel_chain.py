"""Two kernels that make a product together: one leaves partial sums in an array, the next one adds them up.

    part<<<grid, block>>>(A, B, sums, M, N, K);  finish<<<blocks, 256>>>(sums, C, M * N);

In a copy of the file both are device functions, and one kernel calls the first or the second. Host code launches it
with all arguments in the place of the first; the second launch is made from the texts of its own. Lines stay as they
are. What is not understood gives no chain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gemmsmith.userfile.files.edited import Edited
from gemmsmith.userfile.host.host_loops import loop_around, loops_around, plain_array
from gemmsmith.userfile.kernels.built_arguments import FileCopy
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.site_roles import Roles
from gemmsmith.userfile.text.parts import KernelParameter, KernelSource, LaunchText
from gemmsmith.userfile.text.preprocessor import closing
from gemmsmith.userfile.text.syntax import last_name, words

STEP = "which_launch"  # the parameter of the joined kernel that tells the launches apart
_PLAIN = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*")
_LITERAL = re.compile(r"[-+]?[\d.]\w*(?:\.\w*)?|true|false|nullptr|NULL")
_DROPPED = re.compile(r"\b(?:__restrict__|__restrict|restrict|__grid_constant__)\b")


@dataclass(frozen=True)
class KernelChain:
    """Two launches as one kernel.

    edited   texts in place of files
    entry    the joined kernel's name
    scratch  its parameters that hold what the first kernel leaves for the second
    second   the second launch, with the callers of the first
    """

    edited: Edited
    entry: str
    scratch: frozenset[str]
    second: LaunchSite


@dataclass
class _Parameter:
    """A parameter of the joined kernel: what host code passes, and its place among those of each kernel."""

    passed: str
    places: dict[int, KernelParameter]
    types: dict[int, str]
    name: str = ""

    @property
    def pointer(self) -> bool:
        return "*" in next(iter(self.types.values()))

    def passed_to(self, number: int) -> str:
        """As one of the kernels takes it: elements of another type are cast, as host code does."""
        kinds = {words(re.sub(r"\bconst\b|\*", " ", kind)) for kind in self.types.values()}
        return self.name if not self.pointer or len(kinds) == 1 else f"({self.types[number]}){self.name}"

    @property
    def type(self) -> str:
        """Not constant if one of the kernels may write it."""
        first = next(iter(self.types.values()))
        if self.pointer and any("const" not in each.split() for each in self.types.values()):
            first = words(re.sub(r"\bconst\b", " ", first))
        return first


@dataclass
class _Half:
    """One of the two kernels, with its template's values."""

    kernel: KernelSource
    arguments: tuple[str, ...]
    values: Mapping[str, str]
    call: list[str] = field(default_factory=list)

    def spelled(self) -> str:
        """The name with its template arguments; empty where one has no value."""
        if self.kernel.template is None:
            return self.kernel.name
        given = []
        for parameter in self.kernel.template:
            text = self.values.get(parameter.name)
            if parameter.pack or (text is None and not parameter.default):
                return ""
            if text is None:
                break
            given.append(text)
        return f"{self.kernel.name}<{', '.join(given)}>"

    def type_of(self, parameter: KernelParameter) -> str:
        text = _DROPPED.sub(" ", parameter.type)
        return words(re.sub(r"[A-Za-z_]\w*", lambda word: self.values.get(word[0], word[0]), text))


def kernel_chain(
    site: SiteValues | None, template: Mapping[str, str], output: str, edited: Edited, added_to: bool = False
) -> KernelChain | None:
    """The chain that begins with the launch at ``site``, if the next launch takes the array ``output``; or None.

    added_to  the second kernel adds to the array, which is the result: the first one sets it
    """
    if site is None or not output or loop_around(site.site):
        return None
    first = site.site
    launch = _next_launch(first, output)
    kernel = _kernel_of(launch, first) if launch is not None else None
    if launch is None or kernel is None:
        return None
    second = _second_site(first, launch, kernel)
    if loops_around(first.frame) != loops_around(second.frame) or not _same_place(first, second):
        return None
    found, left = SiteValues(second, Roles((), tuple(p.name for p in kernel.parameters)), {}).template()
    halves = [_Half(first.kernel, first.arguments, {**template, **site.given}), _Half(kernel, second.arguments, found)]
    if left or not all(half.spelled() for half in halves):
        return None
    parameters = _joined(halves, output, added_to)
    if parameters is None or not _named(parameters, halves):
        return None
    changed = _changed_text(parameters, halves, first, launch, edited)
    if changed is None:
        return None
    others = tuple((file, text) for file, text in edited if file.resolve() != first.file.resolve())
    scope = first.kernel.qualified.rpartition("::")[0]
    entry = f"{scope}::{_entry(halves)}" if scope else _entry(halves)
    shared = frozenset(p.name for p in parameters if p.passed == output and not added_to)
    return KernelChain((*others, (first.file, changed)), entry, shared, second)


def launch_before(site: SiteValues | None, arrays: set[str]) -> tuple[SiteValues, str] | None:
    """The launch before the one at ``site`` in the same function, if its kernel writes one of the arrays, and which."""
    if site is None:
        return None
    own = site.site
    source, function = own.frame.source, own.frame.function
    earlier = [each for each in source.launches
               if source.functions[each.function] == function and each.start < own.frame.start]  # fmt: skip
    launch = max(earlier, key=lambda each: each.start, default=None)
    kernel = _kernel_of(launch, own) if launch is not None and launch.kernel != own.kernel.name else None
    if launch is None or kernel is None or launch.config or len(launch.arguments) != len(kernel.parameters):
        return None
    for parameter, text in zip(kernel.parameters, launch.arguments, strict=True):
        if plain_array(text) in arrays and "*" in parameter.type and "const" not in parameter.type.split():
            names = tuple(each.name for each in kernel.parameters)
            return SiteValues(_second_site(own, launch, kernel), Roles((), names), {}), plain_array(text)
    return None


def chained_name(first: str, second: str) -> str:
    """The name of two kernels as one; empty where there is no second."""
    return f"{first}_then_{second}" if second else first


def _entry(halves: list[_Half]) -> str:
    return chained_name(halves[0].kernel.name, halves[1].kernel.name)


def _next_launch(first: LaunchSite, output: str) -> LaunchText | None:
    """The launch that follows in the same function, where it takes the array."""
    source, function = first.frame.source, first.frame.function
    later = [each for each in source.launches
             if source.functions[each.function] == function and each.start > first.frame.start]  # fmt: skip
    following = min(later, key=lambda each: each.start, default=None)
    if following is None or following.config or last_name(following.kernel) == first.kernel.name:
        return None
    return following if output in map(plain_array, following.arguments) else None


def _kernel_of(launch: LaunchText, first: LaunchSite) -> KernelSource | None:
    """The kernel that is launched, if it stands in the same file and namespace as the first one, as host code does."""
    if first.kernel.file.resolve() != first.file.resolve():
        return None
    found = [each for each in first.frame.source.kernels if each.name == last_name(launch.kernel)]
    same = len(found) == 1 and found[0].qualified == first.kernel.qualified[: -len(first.kernel.name)] + found[0].name
    return found[0] if same else None


def _second_site(first: LaunchSite, launch: LaunchText, kernel: KernelSource) -> LaunchSite:
    grid, block, smem = (*launch.configuration[:3], "", "", "")[:3]
    return LaunchSite(kernel, first.file, launch.line, launch.text, launch.template, (grid, block, smem),
                      launch.arguments, replace(first.frame, start=launch.start))  # fmt: skip


def _same_place(first: LaunchSite, second: LaunchSite) -> bool:
    """Whether both are launched under the same conditions, and what they are passed does not change in between."""
    before, after = first.frame.locals, second.frame.locals
    if before.conditions != after.conditions:
        return False
    passed = {name for text in (*first.arguments, *second.arguments) for name in re.findall(r"[A-Za-z_]\w*", text)}
    return all(before.variables[name].value == after.variables[name].value
               and before.changed.get(name) == after.changed.get(name)
               for name in passed & before.variables.keys() if name in after.variables)  # fmt: skip


def _joined(halves: list[_Half], output: str, added_to: bool) -> list[_Parameter] | None:
    """The parameters of the first kernel, then those that only the second has; None where one is not understood."""
    found: list[_Parameter] = []
    for number, half in enumerate(halves):
        if len(half.arguments) != len(half.kernel.parameters):
            return None
        for parameter, text in zip(half.kernel.parameters, half.arguments, strict=True):
            kind = half.type_of(parameter)
            if not parameter.name or re.search(r"[&\[\]()]|\.\.\.|\*.*\*", kind):
                return None
            pointer = "*" in kind
            passed = plain_array(text) if pointer else words(text)
            if number and _LITERAL.fullmatch(passed):
                half.call.append(passed)
                continue
            if pointer and not _PLAIN.fullmatch(passed):
                return None  # from some element on, or of an object that is not known
            same = next((p for p in found if p.passed == passed and p.pointer == pointer and number not in p.places),
                        None) if number else None  # fmt: skip
            if same is None:
                same = _Parameter(passed, {}, {})
                found.append(same)
            same.places[number], same.types[number] = parameter, kind
            half.call.append("")
    shared = [p for p in found if p.passed == output]
    if len(shared) != 1 or set(shared[0].places) != {0, 1}:
        return None
    if not shared[0].pointer:  # a struct with all arrays, which both take
        return found
    if added_to:
        return found if not any("const" in kind.split() for kind in shared[0].types.values()) else None
    # What the first kernel leaves is no result of the second: another array is, which the first may write as well.
    reads = "const" in shared[0].types[1].split()
    writes = any(p.pointer and p is not shared[0] and 1 in p.places
                 and not any("const" in kind.split() for kind in p.types.values()) for p in found)  # fmt: skip
    return found if reads and writes else None


def _named(parameters: list[_Parameter], halves: list[_Half]) -> bool:
    """Give every parameter one name in both kernels; False where there is none."""
    taken = {STEP}
    for parameter in sorted(parameters, key=lambda p: (len(p.places), not p.pointer)):
        own = [each.name for each in parameter.places.values()]
        free = [name for name in (*own, f"{own[0]}_shared" if len(own) > 1 else f"{own[0]}_given") if name not in taken]
        if not free:
            return False
        parameter.name = free[0]
        taken.add(parameter.name)
    for number, half in enumerate(halves):
        mentioned = set(re.findall(r"[A-Za-z_]\w*", half.kernel.body)) | {p.name for p in half.kernel.parameters}
        own_names = {p.places[number].name for p in parameters if number in p.places}
        new = {p.name for p in parameters if number in p.places and p.name != p.places[number].name}
        if new & (mentioned - own_names):
            return False
        if STEP in mentioned:
            return False
    return True


def _changed_text(
    parameters: list[_Parameter], halves: list[_Half], first: LaunchSite, launch: LaunchText, edited: Edited
) -> str | None:
    copy = FileCopy(first.file, edited)
    if re.search(rf"\b(?:{_entry(halves)}|{STEP})\b", copy.code):
        return None
    end = 0
    for number, half in enumerate(halves):
        name = re.escape(half.kernel.name)
        declared = list(re.finditer(rf"__global__[^;{{}}]*?\b{name}\s*(?=\()", copy.code))
        if len(declared) != 1:  # a declaration would have to change as well
            return None
        copy.into_function(half.kernel)
        head = declared[0].end()
        brace = copy.code.find("{", closing(copy.code, head))
        last = closing(copy.code, brace)
        renamed = {p.places[number].name: p.name for p in parameters
                   if number in p.places and p.places[number].name != p.name}  # fmt: skip
        copy.rename_within(head, last, renamed)
        end = max(end, last + 1)
        given = []
        for parameter, literal in zip(half.kernel.parameters, half.call, strict=True):
            joined = next((p for p in parameters if p.places.get(number) is parameter), None)
            given.append(literal if joined is None else joined.passed_to(number))
        half.call = given
    if end > len(copy.code):
        return None
    listed = ", ".join(f"{p.type} {p.name}" for p in parameters)
    calls = [f"{half.spelled()}({', '.join(half.call)});" for half in halves]
    made = (f" __global__ void {_entry(halves)}({listed}, int {STEP}) "
            f"{{ if ({STEP} == 0) {calls[0]} else {calls[1]} }}")  # fmt: skip
    copy.insert(end, made)
    more = [p.passed for p in parameters if 0 not in p.places]
    copy.relaunch(halves[0].kernel.name, first.line, _entry(halves), (*more, "0"))
    copy.without_launch(halves[1].kernel.name, launch.line)
    text = copy.changed()
    return text if copy.fits else None
