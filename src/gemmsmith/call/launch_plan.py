"""The launches of a call, planned before its operands have addresses.

    build_prologue ─► specialize ─► arguments, grid, tensor maps   =  LaunchPlan

A plan depends on the problem, the kernel and the alignment of the operands. Arguments are bytes with slots for the
addresses of A, B, C, the bias and the workspace (kernel/slots.py); call/binding.py loads the kernels and fills the
slots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmsmith.errors import ConfigError, LaunchError, UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.kernel.geometry import Geometry, ScratchArray, TensorMap
from gemmsmith.kernel.signature import MAP_BYTES, MAP_POINTER, SCRATCH, Signature
from gemmsmith.kernel.slots import (
    ALIGNMENT_CLASS,
    Slot,
    SlotAddress,
    SlotBytes,
    pack,
    packs_lost_slot,
    with_address,
)
from gemmsmith.kernel.spec import Addresses, Fallback, KernelSpec, Prologue, PrologueLaunch
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.build import build_prologue, has_product
from gemmsmith.run.tensor_map import ALIGNMENT, check_tensor_map

MAP_REFUSED = "cuTensorMapEncodeTiled refuses a map"


@dataclass(frozen=True)
class MapArgument:
    """A tensor map, which the device encodes for each address. ``room``: where it is put, if its address is passed."""

    described: TensorMap
    address: SlotAddress
    room: SlotAddress | None = None


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch of a call.

    problem    the types and the layout that the kernel is compiled for
    arguments  known bytes, ``SlotBytes``, or tensor maps
    packaged   a part of the package, whose source does not change while it runs; a user's file may
    """

    spec: KernelSpec
    config: Config
    problem: Problem
    geometry: Geometry
    arguments: tuple[bytes | MapArgument, ...]
    packaged: bool


@dataclass(frozen=True)
class PlacedArray:
    """An array that a user's kernel takes besides its matrices, ``offset`` bytes into the workspace."""

    array: ScratchArray
    offset: int


@dataclass(frozen=True)
class LaunchPlan:
    """All launches of a call: the kernel's prologue, the fallback with its own prologue, the kernel.

    alignment        of A, B, C and the bias: the plan is for addresses with these remainders by 256
    workspace_bytes  memory besides the operands, aligned to 256 bytes; 0 for most kernels
    decision         how the verdict in the workspace is read; None where there is no fallback
    scratch          the arrays of a user's kernel that lie in the workspace
    rounds           launches of the kernel before the last one, where host code makes one for each part of the product
    """

    prologue: tuple[PlannedLaunch, ...]
    fallback: tuple[PlannedLaunch, ...]
    kernel: PlannedLaunch
    alignment: tuple[int, ...]
    workspace_bytes: int
    decision: Fallback | None
    scratch: tuple[PlacedArray, ...] = ()
    rounds: tuple[PlannedLaunch, ...] = ()

    @property
    def launches(self) -> tuple[PlannedLaunch, ...]:
        """In the order in which they run."""
        return (*self.prologue, *self.fallback, *self.rounds, self.kernel)

    @property
    def maps_by_pointer(self) -> bool:
        """Whether the workspace holds tensor maps, which belong to the addresses of one call."""
        return any(isinstance(a, MapArgument) and a.room is not None for e in self.launches for a in e.arguments)


def alignment_of(addresses: Addresses) -> tuple[int, ...]:
    """All of the addresses that a plan depends on."""
    return tuple(address % ALIGNMENT_CLASS for address in addresses)


def plan_launches(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses,
                  *, specialized: bool = False, tables: bool = False, alone: bool = False) -> LaunchPlan:  # fmt: skip
    """The launches that compute ``problem`` for operands aligned as ``addresses`` are; M, N and the batch are not 0.

    ``specialized``: ``config`` is compiled already and stays as it is. ``tables``: the addresses are those of arrays of
    pointers, where the kernel takes such (``pointer_tables``). ``alone``: one launch for the whole product, also of a
    kernel that host code launches for one part after another.
    """
    if not tables and any(arg.table for arg in spec.signature.arguments):
        raise UnsupportedError(f"{spec.signature.entry} takes arrays of pointers, which only gemmsmith check runs",
                               "gemmsmith.launch runs the kernel with arguments of your own")  # fmt: skip
    alignment = alignment_of(addresses)
    slots = Addresses(*(SlotAddress(Slot(i), each) for i, each in enumerate(alignment)))
    if spec.signature.has("D") and not addresses.bias:
        slots = slots._replace(bias=0)  # no C besides the output: the kernel is passed the output for both
    prologue = build_prologue(spec, config, problem, slots, SlotAddress(Slot.WORKSPACE))
    fallback: list[PlannedLaunch] = []
    if (other := prologue.fallback) is not None:
        assert prologue.fallback_prologue is not None
        fallback += map(_prologue_launch, prologue.fallback_prologue.launches)
        fallback.append(_kernel_launch(other.spec, other.config, prologue.fallback_prologue))
    used = prologue.nbytes + _map_bytes(spec.signature, prologue.nbytes)
    scratch = _placed(spec, problem, used)
    kernel = _kernel_launch(spec, config, prologue, specialized)
    kernel = replace(kernel, arguments=_with_scratch(spec.signature, kernel.arguments, scratch))
    *rounds, kernel = [kernel] if alone else _in_rounds(kernel, problem)
    return LaunchPlan(
        prologue=tuple(map(_prologue_launch, prologue.launches)),
        fallback=tuple(fallback),
        kernel=kernel,
        alignment=alignment,
        workspace_bytes=scratch[-1].offset + scratch[-1].array.nbytes if scratch else used,
        decision=prologue.fallback,
        scratch=scratch,
        rounds=tuple(rounds),
    )


def _in_rounds(kernel: PlannedLaunch, problem: Problem) -> list[PlannedLaunch]:
    """The launch, or those that a user's host code makes for one part of the product after another."""
    described = getattr(kernel.spec.geometry, "rounds", None)
    found = described(problem) if described is not None else ()
    if not found:
        return [kernel]
    launches, signature = [], kernel.spec.signature
    order = _parameter_order(signature)
    for each in found:
        arguments = list(kernel.arguments)
        for i, argument in enumerate(signature.arguments):
            number = order[signature.place(i)]
            known = arguments[number]
            if i in each.offsets and isinstance(known, SlotBytes):
                (_, start), *_ = known.slots
                element = problem.dtype if argument.role in ("A", "B") else problem.out_dtype
                arguments[number] = pack("<Q", start + each.offsets[i] * element.itemsize)
            elif i in each.numbers:
                arguments[number] = signature.packed(argument, each.numbers[i])
        geometry = replace(kernel.geometry, grid=each.grid, block=each.block, smem=each.smem)
        launches.append(replace(kernel, geometry=geometry, arguments=tuple(arguments)))
    return launches


def _prologue_launch(launch: PrologueLaunch) -> PlannedLaunch:
    if any(map(packs_lost_slot, launch.arguments)):
        raise TypeError(f"{launch.spec.name} packs an address with struct.pack: use kernel.slots.pack")
    return PlannedLaunch(launch.spec, launch.spec.config(), launch.compiled_for, launch.geometry, launch.arguments,
                         packaged=True)  # fmt: skip


def _kernel_launch(spec: KernelSpec, config: Config, prologue: Prologue, specialized: bool = False) -> PlannedLaunch:
    problem, addresses = prologue.problem, prologue.addresses
    if not specialized:
        config = specialize(spec, config, prologue)
    geometry = spec.geometry(problem, config)
    _check_smem(spec, config, problem, geometry)
    signature = spec.signature
    as_passed = getattr(spec.geometry, "as_passed", None)  # of a user's kernel: numbers that host code computes
    passed = as_passed(signature, problem) if as_passed is not None else signature
    packed = passed.pack(problem, *addresses, workspace=prologue.workspace)
    maps = _tensor_maps(spec, config, problem, prologue.mapped or addresses)
    arguments: tuple[bytes | MapArgument, ...] = packed
    if maps:
        named = zip(signature.arguments, packed, strict=True)
        arguments = tuple(maps.get(each.name, known) for each, known in named)
        arguments = _pointed_maps(signature, arguments, prologue.nbytes)
    return PlannedLaunch(spec, config, problem, geometry, arguments, spec.is_rung)


def _placed(spec: KernelSpec, problem: Problem, used: int) -> tuple[PlacedArray, ...]:
    """The arrays that a user's kernel takes besides its matrices, after ``used`` bytes of the workspace."""
    if not spec.signature.has(SCRATCH):
        return ()
    described = getattr(spec.geometry, "scratch", None)
    if described is None:
        names = ", ".join(arg.name for arg in spec.signature.arguments if arg.role == SCRATCH)
        raise UnsupportedError(f"how large {names} must be is not known: no host code launches {spec.signature.entry}",
                               "gemmsmith.launch runs the kernel with arguments of your own")  # fmt: skip
    found = []
    for array in described(problem):
        offset = ceil_div(used, ALIGNMENT_CLASS) * ALIGNMENT_CLASS
        found.append(PlacedArray(array, offset))
        used = offset + array.nbytes
    return tuple(found)


def _parameter_order(signature: Signature) -> dict[int, int]:
    """The number of each parameter by its place."""
    places = dict.fromkeys(map(signature.place, range(len(signature.arguments))))
    return {place: number for number, place in enumerate(places)}


def _with_scratch(
    signature: Signature, arguments: tuple[bytes | MapArgument, ...], scratch: tuple[PlacedArray, ...]
) -> tuple[bytes | MapArgument, ...]:
    """The arguments, with the places of these arrays, which may be fields of a struct."""
    if not scratch:
        return arguments
    at = {each.array.name: SlotAddress(Slot.WORKSPACE) + each.offset for each in scratch}
    order = _parameter_order(signature)
    found = list(arguments)
    for index, named in enumerate(signature.arguments):
        if named.name in at:
            number = order[signature.place(index)]
            known = found[number]
            assert isinstance(known, bytes)
            found[number] = with_address(known, signature.bytes_at(index).start, at[named.name])
    return tuple(found)


def _map_bytes(signature: Signature, used: int) -> int:
    """The room for maps that are passed by pointer, after ``used`` bytes of the workspace."""
    count = sum(arg.code == MAP_POINTER for arg in signature.arguments)
    return count * MAP_BYTES + -used % ALIGNMENT_CLASS if count else 0


def _pointed_maps(
    signature: Signature, arguments: tuple[bytes | MapArgument, ...], used: int
) -> tuple[bytes | MapArgument, ...]:
    """The arguments, with a place in the workspace for each map that is passed by pointer."""
    room = SlotAddress(Slot.WORKSPACE) + ceil_div(used, ALIGNMENT_CLASS) * ALIGNMENT_CLASS
    found: list[bytes | MapArgument] = []
    for named, argument in zip(signature.arguments, arguments, strict=True):
        if named.code == MAP_POINTER and isinstance(argument, MapArgument):
            argument, room = replace(argument, room=room), room + MAP_BYTES
        found.append(argument)
    return tuple(found)


def specialize(spec: KernelSpec, config: Config, prologue: Prologue) -> Config:
    """The configuration for the operands as the kernel sees them after its prologue."""
    a, b, c = (address % ALIGNMENT_CLASS for address in prologue.addresses[:3])
    return spec.specialize(config, prologue.problem, (a, b, c))


def _check_smem(spec: KernelSpec, config: Config, problem: Problem, geometry: Geometry) -> None:
    """A configuration may fit into shared memory in one layout and not in another."""
    if spec.arch_specific and geometry.smem > LARGEST_SMEM:
        raise ConfigError(
            f"{spec.name} cannot run with {config} in layout {problem.layout}: it needs {geometry.smem:,} B of shared "
            f"memory, but a block has {LARGEST_SMEM:,} B", "take fewer STAGES",
        )  # fmt: skip


def _tensor_maps(spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses) -> dict[str, MapArgument]:
    """The tensor maps of a kernel's entry, by the names of its parameters."""
    if spec.tensor_maps is None:
        return {}
    where = {"A": addresses.a, "B": addresses.b, "C": addresses.c}
    # A rung reads nothing through these maps then, but they must describe memory that exists. A user's kernel may
    # multiply all the same.
    if not has_product(problem) and (spec.is_rung or problem.k == 0):
        where["A"] = where["B"] = addresses.c - addresses.c % ALIGNMENT
        problem = _describable(problem)
    if 1 in (problem.a_shape[0], problem.b_shape[0], problem.m):
        problem = _with_any_leading(problem)
    found = {}
    for name, described in spec.tensor_maps(problem, config).items():
        address = where[described.operand]
        assert isinstance(address, SlotAddress)
        if not spec.is_rung:
            _check_users_map(name, described, address)
        found[name] = MapArgument(described, address)
    return found


def _check_users_map(name: str, described: TensorMap, address: SlotAddress) -> None:
    """Raise as the launch itself would fail: the driver encodes no such map, whatever the kernel."""
    try:
        check_tensor_map(replace(described, operand=name), address % ALIGNMENT_CLASS)
    except (ConfigError, UnsupportedError) as error:
        raise LaunchError(f"{MAP_REFUSED}: {error.message}", error.hint) from None


def _describable(problem: Problem) -> Problem:
    """With a K that is not empty, and leading dimensions that tensor maps take."""
    wide = problem.with_(k=max(1, problem.k), lda=problem.lda, ldb=problem.ldb, ldc=problem.ldc)
    size = problem.dtype.itemsize
    return wide.with_(lda=_rounded(wide.lda, size), ldb=_rounded(wide.ldb, size), ldc=problem.ldc,
                      stride_c=problem.stride_c)  # fmt: skip


def _with_any_leading(problem: Problem) -> Problem:
    """The leading dimension of a single row is never used, so it may be one that a tensor map takes."""
    size = problem.dtype.itemsize
    lda = _rounded(problem.lda, size) if problem.a_shape[0] == 1 else problem.lda
    ldb = _rounded(problem.ldb, size) if problem.b_shape[0] == 1 else problem.ldb
    ldc = _rounded(problem.ldc, problem.out_dtype.itemsize) if problem.m == 1 else problem.ldc
    return replace(problem, lda=lda, ldb=ldb, ldc=ldc)


def _rounded(elements: int, itemsize: int) -> int:
    per = ALIGNMENT // min(itemsize, 2)  # the 16-bit terms of a split operand
    return ceil_div(elements, per) * per
