"""The memory that a launch of a user's kernel is given besides its matrices, as host code makes it: tensor maps, arrays
that blocks share, room after A and B."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.gpus import largest_smem
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.geometry import ScratchArray, TensorMap
from gemmsmith.kernel.signature import SCRATCH, Signature
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.userfile.host.cleared_once import is_cleared_once, keeps_variable
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.host.host_allocations import allocated_by_owner, allocated_bytes
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.host_tensor_maps import HostMap, described, host_maps
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts, problem_sizes
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.scratch import adds_into, cleared_bytes, is_zeroed, sets_to_zero
from gemmsmith.userfile.launches.launch_site import LaunchSite, callers_of
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.site_roles import roles_of

_LARGE_TILE = 256
_PARTS = 16
_TELLING_SIZES = {"M": 1009, "N": 2003, "K": 3001}  # no product or sum of others
_TELLING_BATCH = 7
_OTHER = {"A": "B", "B": "A"}
_STATIC_SMEM = 8192  # bytes that are left for arrays of fixed size, where all else is given to the launch
_EXTERN_SHARED = re.compile(r"\bextern\b[^;]*\b__shared__\b|\bextern\s+__shared__|\b__shared__[^;]*\bextern\b")


class LaunchMemory:
    """What ``UserLaunch`` knows of a launch's memory."""

    facts: KernelFacts
    site: SiteValues | None
    template: Mapping[str, str]
    signature: Signature
    options: UserOptions
    maps: tuple[HostMap, ...]
    swapped: bool
    second: LaunchSite | None

    def dynamic_smem(self, problem: Problem) -> int:
        """Bytes of dynamic shared memory. Where host code's number is not understood, or there is no launch, a kernel
        that uses such memory gets as much as a GPU has: too little would make a right kernel fail."""
        known = self._known_smem(problem)
        return largest_smem() - _STATIC_SMEM if known is None or self._lacks_smem else known

    @property
    def _lacks_smem(self) -> bool:
        """Whether it uses dynamic shared memory, and no launch is known."""
        return self.site is None and _EXTERN_SHARED.search(self.facts.reached) is not None

    def guesses_smem(self, problem: Problem) -> bool:
        """Whether the bytes of dynamic shared memory are as many as a GPU has, since neither host code's nor the user's
        are known."""
        return not self.options.smem and (self._known_smem(problem) is None or self._lacks_smem)

    def shown_smem(self, problem: Problem) -> str:
        known = self._known_smem(problem)
        return f"not known ({self.dynamic_smem(problem):,} bytes given)" if known is None else str(known)

    def _known_smem(self, problem: Problem) -> int | None:
        if self.site is None:
            return 0
        try:
            return self.site.smem(problem_sizes(problem))
        except (UsageError, RecursionError):
            return None

    def tensor_maps(self, problem: Problem, _config: Config) -> dict[str, TensorMap]:
        """The tensor maps of a problem, by the names of the parameters, as host code encodes them."""
        own = problem.with_(m=problem.n, n=problem.m) if self.swapped else problem
        signature = self.signature.transposed() if self.swapped else self.signature
        roles = {arg.name: arg.role for arg in signature.arguments}
        found = {}
        assert self.site is not None
        again = host_maps(
            self.facts.kernel.parameters, self.site, problem_sizes(own), self.facts.aliases(self.template)
        )
        for each in again:
            operand = roles[each.name].removeprefix("map")
            dtype = problem.out_dtype if operand == "C" else problem.dtype
            assert each.call is not None
            try:
                found[each.name] = described(each.call, operand, each.element or dtype)
            except (UsageError, IndexError) as error:
                raise UsageError(
                    f"{each.name}: the tensor map of {each.call.place} is not understood: {error}",
                    "gemmsmith.launch runs the kernel with gemmsmith.tensor_map(array, box=…)",
                ) from None
        return found

    def spare(self, problem: Problem) -> dict[str, int]:
        """By how many bytes host code allocates more than A and B need, for the roles of ``signature``."""
        if self.site is None:
            return {}
        sizes = problem_sizes(problem.with_(m=problem.n, n=problem.m) if self.swapped else problem)
        needed = {"A": sizes["M"] * sizes["K"], "B": sizes["K"] * sizes["N"]}
        found: dict[str, int] = {}
        for argument in self.signature.arguments:
            if argument.role in needed and argument.at_launch:
                room = allocated_bytes(argument.at_launch, self.site.scope(sizes, Asked()))
                more = (room or 0) - needed[argument.role] * problem.dtype.itemsize
                if more > 0:
                    found[argument.role] = more
        return {_OTHER.get(role, role): more for role, more in found.items()} if self.swapped else found

    def bias_extent(self, signature: Signature) -> str:
        """Whether host code allocates M or N values for the bias, with the meanings of ``signature``; empty if that is
        not known, or neither."""
        given = next((arg for arg in signature.arguments if arg.role == "bias"), None)
        if given is None or not given.at_launch or self.site is None:
            return ""
        element = parameter_type(given.ctype, {}).element
        if element is None:
            return ""
        found: set[str] = set()
        for site in callers_of(self.site.site):
            values = SiteValues(site, roles_of(signature), self.site.given)
            room = allocated_by_owner(given.at_launch, values.scope(_TELLING_SIZES, Asked()))
            if room is not None:
                counts = {_TELLING_SIZES[name] * element.itemsize: name for name in ("M", "N")}
                found.add(counts.get(room, ""))
        return found.pop() if len(found) == 1 else ""

    def copies(self, signature: Signature, role: str) -> str:
        """Whether host code allocates one matrix A or B for a batch ("one") or one for each product ("each"); empty if
        that is not known."""
        given = next((arg for arg in signature.arguments if arg.role == role), None)
        element = parameter_type(given.ctype, {}).element if given is not None else None
        if given is None or element is None or not given.at_launch or self.site is None:
            return ""
        sizes = _TELLING_SIZES | {"batch": _TELLING_BATCH}
        matrix = sizes["K"] * sizes["M" if role == "A" else "N"] * element.itemsize
        found: set[str] = set()
        for site in callers_of(self.site.site):
            values = SiteValues(site, roles_of(signature), self.site.given)
            room = allocated_by_owner(given.at_launch, values.scope(sizes, Asked()))
            if room is not None:
                found.add({matrix: "one", matrix * _TELLING_BATCH: "each"}.get(room, ""))
        return found.pop() if len(found) == 1 else ""

    def scratch(self, problem: Problem) -> tuple[ScratchArray, ...]:
        """The arrays that the blocks share, as host code allocates them."""
        wanted = [arg for arg in self.signature.arguments if arg.role == SCRATCH]
        if not wanted:
            return ()
        own = problem.with_(m=problem.n, n=problem.m) if self.swapped else problem
        found = []
        for arg in wanted:
            size = element.itemsize if (element := parameter_type(arg.ctype, {}).element) else 4
            room, zeroed, kept = None, True, False
            if self.site is not None and arg.at_launch:
                room = allocated_bytes(arg.at_launch, self.site.scope(problem_sizes(own), Asked()))
                frame = self.site.site.frame
                zeroed = is_zeroed(arg.at_launch, frame)
                kept = any(is_cleared_once(arg.at_launch, each.frame) for each in callers_of(self.site.site))
                if self.second is not None and not adds_into(arg.name, self.facts.reached):
                    zeroed = sets_to_zero(arg.at_launch, frame)  # the first kernel writes what the second may read
            room = room or self._unknown_room(own, size)
            cleared = self._cleared(arg.at_launch, room, own) if zeroed else 0
            found.append(ScratchArray(arg.name, room, size, cleared, kept))
        return tuple(found)

    def kept(self, variables: Iterable[str], problem: Problem) -> list[str]:
        """What a launch leaves for the next one: arrays that host code clears once, and these variables of the module
        where nothing else sets them."""
        arrays = [each.name for each in self.scratch(problem) if each.kept]
        facts = self.facts
        return arrays + [name for name in variables if keeps_variable(name, facts.kernel, facts.reached, facts.sources)]

    def _cleared(self, text: str, room: int, problem: Problem) -> int:
        """How many bytes of an array host code sets to zero: all, unless it says otherwise."""
        said = cleared_bytes(text, self.site, problem_sizes(problem)) if self.site is not None and text else None
        return room if said is None else min(room, max(0, said[0]))

    def _unknown_room(self, problem: Problem, itemsize: int) -> int:
        """Bytes of a shared array whose size host code does not tell; room for a part of C from each block along z."""
        room = _unknown_room(problem, itemsize)
        if self.site is None or self.second is None:
            return room
        parts = self.site.extent(0, problem_sizes(problem))[0][2]
        return room * ceil_div(parts, _PARTS)

    def found_maps(self, problem: Problem) -> list[FoundValue]:
        """What the report says of the tensor maps."""
        try:
            known = self.tensor_maps(problem, Config(())) if self.maps else {}
        except GemmsmithError:
            return []
        calls = {each.name: each.call for each in self.maps}
        roles = {arg.name: arg.role.removeprefix("map") for arg in self.signature.arguments}
        return [FoundValue(f"tensor map {name}", f"of {roles[name]}: {_shown_map(made)}", call.place, call.text)
                for name, made in known.items() if (call := calls[name]) is not None]  # fmt: skip


def _unknown_room(problem: Problem, itemsize: int) -> int:
    """Bytes of a shared array whose size host code does not tell: 16 parts of C in whole tiles, or both operands."""
    rows, columns, depth = (ceil_div(extent, _LARGE_TILE) * _LARGE_TILE for extent in (problem.m, problem.n, problem.k))
    return max(_PARTS * rows * columns, (rows + columns) * depth) * problem.batch * itemsize


def _shown_map(made: TensorMap) -> str:
    box = "x".join(map(str, reversed(made.box)))
    swizzle = f", swizzle {made.swizzle}" if made.swizzle else ""
    interleave = f", interleave {made.interleave}" if made.interleave else ""
    return f"boxes of {box} {made.dtype}{swizzle}{interleave}"
