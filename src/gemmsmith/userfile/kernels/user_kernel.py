"""A user's own .cu file as a kernel: its entry, signature and launch geometry.

Template values come from -D, then from ``--entry 'k<64, float>'``, then from the launch in host code, then from the
template's defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gemmsmith.errors import GemmsmithError, SignatureError, UnknownKernelError
from gemmsmith.kernel.exchanged_arguments import with_exchanged_arguments
from gemmsmith.kernel.field_roles import own_name
from gemmsmith.kernel.layout import ROW_MAJOR, layout_named
from gemmsmith.kernel.operand_types import element_types
from gemmsmith.kernel.role_evidence import HostArguments, KernelText
from gemmsmith.kernel.roles import EXTENTS, recognise
from gemmsmith.kernel.signature import SCRATCH, Signature, is_formula
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, Problem
from gemmsmith.userfile.files.edited import edited_text
from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.files.read_once import once
from gemmsmith.userfile.files.translation_unit import translation_unit
from gemmsmith.userfile.host.assumed_tile import assumed_note, with_assumed_tile
from gemmsmith.userfile.host.constant_arguments import passed_as_arguments, passed_note
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.host.host_allocations import may_be_null
from gemmsmith.userfile.host.host_loops import counters_at
from gemmsmith.userfile.host.host_tensor_maps import HostMap, host_maps, map_parameters, named_maps
from gemmsmith.userfile.host.tile_argument import with_tile_argument
from gemmsmith.userfile.kernels.built_arguments import built_on_device
from gemmsmith.userfile.kernels.constant_pitches import with_constant_pitches
from gemmsmith.userfile.kernels.entry_choice import Entry, choose_entry
from gemmsmith.userfile.kernels.given_values import with_given_conditions
from gemmsmith.userfile.kernels.kernel_facts import SAMPLE, KernelFacts, problem_sizes
from gemmsmith.userfile.kernels.name_expression import name_expression, template_names, without_value
from gemmsmith.userfile.kernels.options import UserOptions, with_directives
from gemmsmith.userfile.kernels.overloads import without_overloads
from gemmsmith.userfile.kernels.packed_weights import refuse_packed
from gemmsmith.userfile.kernels.passed_on import passed_on
from gemmsmith.userfile.kernels.pointed_structs import by_value_note, taken_by_value
from gemmsmith.userfile.kernels.pointer_tables import left_out_notes, may_be_left_out, without_further_table
from gemmsmith.userfile.kernels.row_pointers import refuse_row_pointers
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter, scaled_parameters
from gemmsmith.userfile.kernels.scratch import scratch_names
from gemmsmith.userfile.kernels.struct_parameters import flat_arguments, flat_parameters, refuse_pointed
from gemmsmith.userfile.kernels.vector_product import vector_product
from gemmsmith.userfile.launches.kernel_chain import KernelChain, kernel_chain, launch_before
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.named_instances import template_values
from gemmsmith.userfile.launches.site_roles import Roles, roles_of
from gemmsmith.userfile.launches.tied_extents import with_tied_extents
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.userfile.text.parts import KernelSource
from gemmsmith.userfile.text.source import read_text
from gemmsmith.userfile.text.static_asserts import guesses_for

_SHOWN = 6  # kernels of headers that a message names
__all__ = ["UserOptions", "found_values", "geometry_source", "user_kernel"]


@dataclass(frozen=True)
class _Read:
    """A file, read for one of its kernels."""

    options: UserOptions
    entry: Entry
    launch: UserLaunch
    defines: tuple[tuple[str, str], ...]
    aliases: Mapping[str, str]


def joined_kernel(path: Path, options: UserOptions) -> KernelSpec | None:
    """The kernel in ``path`` and the next one, which finishes its product, as one; None where there is no such."""
    launch = _read(path, options).launch
    if options.grid or options.block or options.smem or options.signature or launch.maps or launch.notes:
        return None
    left = [launch.array_passed(i) for i, arg in enumerate(launch.signature.arguments)
            if arg.role in (launch.signature.output, SCRATCH)]  # fmt: skip
    chains = (kernel_chain(launch.site, launch.template, array, options.edited) for array in left)
    if (chain := next(filter(None, chains), None)) is None:
        return None
    try:
        return user_kernel(path, replace(options, edited=chain.edited, entry=chain.entry), chain)
    except GemmsmithError:
        return None


def prepared_kernel(
    path: Path, options: UserOptions, adds: bool, launch: UserLaunch | None = None
) -> KernelSpec | None:  # fmt: skip
    """The kernel in ``path`` and the one before it, which writes one of its operands, as one; None: no such.

    adds    the kernel adds to its result, and the one before it sets that
    launch  of the kernel, where it has been read
    """
    launch = launch or _read(path, options).launch
    if options.grid or options.block or options.smem or options.signature or launch.maps or launch.notes:
        return None
    written = (launch.signature.output,) if adds else ("A", "B")
    arrays = {arg.at_launch for arg in launch.signature.arguments if arg.role in written and arg.at_launch}
    before = launch_before(launch.site, arrays)
    chain = None
    if before is not None:
        chain = kernel_chain(before[0], before[0].template()[0], before[1], options.edited, adds)
    if before is None or chain is None or chain.second.kernel.qualified != launch.facts.kernel.qualified:
        return None
    try:
        both = user_kernel(path, replace(options, edited=chain.edited, entry=chain.entry), chain)
    except GemmsmithError:
        return None
    # What the kernel before reads in place of an operand is that operand; all else means what it does to the product.
    meant = {arg.at_launch: arg.role for arg in launch.signature.arguments if arg.at_launch}
    operand = "" if adds else meant.pop(before[1])
    arguments = tuple(replace(arg, role=meant.get(arg.at_launch, operand if operand and arg.code == "P" else arg.role))
                      if arg.role != SCRATCH else arg for arg in both.signature.arguments)  # fmt: skip
    return both.read_as(replace(both.signature, arguments=arguments), both.layouts[0])


def user_kernel(path: Path, options: UserOptions, chain: KernelChain | None = None) -> KernelSpec:
    """The kernel in ``path``; of a chain, both of its kernels as one."""
    read = _read(path, options) if chain is None else _read_now(path, options, chain)
    if not read.options.signature:
        refuse_packed(read.entry.kernel.name, read.entry.kernel.parameters, read.launch.facts.reached, read.aliases)
    launch = read.launch.with_products_along_z()
    dtype, out_dtype = element_types(launch.signature, launch.facts.reached, read.aliases)
    layout = layout_named(read.options.layout) if read.options.layout else ROW_MAJOR
    signature, operations = layout.applied(launch.signature)
    launch = launch.read_as(signature)
    batched = signature.has("batch") or signature.has("strideA") or signature.takes_table("A")
    batched = batched or bool(launch.products) or launch.counts_products
    if batched and (not signature.has("batch") or launch.products) and launch.shared_operand:
        launch.notes += (launch.shared_note(),)
        signature = replace(signature, shared=launch.shared_operand)
    return KernelSpec(
        name=path.name,
        source=path,
        summary=f"{signature.entry} in {path.name}",
        teaches="",
        geometry=launch,
        entry=name_expression(read.entry.kernel, dict(read.defines), dtype),
        dtypes=(dtype,),
        out_dtypes=(out_dtype,),
        layouts=(operations,),
        batched=batched,
        extra_defines=tuple(pair for pair in read.defines if pair[0] not in template_names(read.entry.kernel)),
        declared_signature=read.options.signature,
        known_signature=signature,
        unit=launch.facts.project.path,
        include=read.options.include,
        edited=read.options.edited,
        tensor_maps=launch.tensor_maps if launch.maps else None,
    )


def geometry_source(path: Path, options: UserOptions, problem: Problem = SAMPLE) -> str:
    """Where block and grid come from: "given", "directive", "launch site" or "guessed"; both sources if they differ."""
    read = _read(path, options)
    block, grid = read.launch.sources(problem)
    block = "directive" if block == "given" and not options.block else block
    grid = "directive" if grid == "given" and not options.grid else grid
    return block if block == grid else f"block {block}, grid {grid}"


def found_values(path: Path, options: UserOptions, problem: Problem = SAMPLE) -> tuple[FoundValue, ...]:
    """What host code tells about the launch, each value with its place and text."""
    return _read(path, options).launch.found(problem)


def scaled_kernel(path: Path, options: UserOptions) -> tuple[KernelSpec, tuple[ScaledParameter, ...]] | None:
    """A kernel with scales, zero points or two types of operands, and its parameters; None for any other. The spec
    tells launches and extents, not types."""
    read = _read(path, options)
    launch, kernel = read.launch, read.entry.kernel
    parameters = scaled_parameters(launch.signature, launch.facts.reached) if not options.signature else None
    if parameters is None or launch.maps:
        return None
    known = (*EXTENTS, "A", "B", "C", "lda", "ldb", "ldc")
    arguments = tuple(replace(arg, role=each.role if each.role in known or is_formula(each.role) else "0")
                      for arg, each in zip(launch.signature.arguments, parameters, strict=True))  # fmt: skip
    signature = replace(launch.signature, arguments=arguments, square=False)
    spec = KernelSpec(
        path.name, path, f"{kernel.name} in {path.name}", "", launch.read_as(signature),
        entry=name_expression(kernel, dict(read.defines), FP32), known_signature=signature,
        unit=launch.facts.project.path, include=read.options.include, edited=read.options.edited,
        extra_defines=tuple(pair for pair in read.defines if pair[0] not in template_names(kernel)),
    )  # fmt: skip
    return spec, parameters


def read_facts(path: Path, options: UserOptions) -> tuple[KernelFacts, Mapping[str, int]]:
    """What the sources tell about the kernel, and the values of its constants."""
    launch = _read(path, options).launch
    return launch.facts, launch.constants


def _read(path: Path, options: UserOptions) -> _Read:
    return once("kernel", (path, options), lambda: _read_now(path, options))


def _read_now(path: Path, options: UserOptions, chain: KernelChain | None = None) -> _Read:
    text = edited_text(path, options.edited) or _text(path)
    options = with_directives(options, text)
    if (decided := with_given_conditions(text, dict(options.defines))) != text:
        kept = tuple(each for each in options.edited if each[0].resolve() != path.resolve())
        return _read_now(path, replace(options, edited=(*kept, (path, decided))), chain)
    project = Project.of(path, options.include, options.edited)
    kernels = [kernel for source in project.sources(path) for kernel in source.kernels]
    entry = choose_entry(path, kernels, options.entry, partial(is_product, project), partial(has_operands, project))
    given = dict((*entry.given(), *options.defines))
    rewritten = _rewritten(path, options, project, kernels, entry, chain)
    if rewritten is not None:
        return rewritten
    project = Project.of(translation_unit(project, entry.kernel), options.include, options.edited)
    facts = KernelFacts(project, entry.kernel, tuple(given.items()))
    site = facts.site(_roles(facts, options))
    built = built_on_device(entry.kernel, site.site if site is not None else None, options.edited)
    if built is not None:
        read = _read_now(path, replace(options, edited=built.edited, entry=entry.kernel.qualified))
        read.launch.notes += (built.note,)
        return read
    template, named = template_values(project, entry.kernel, site, given)
    aliases = facts.aliases(template)
    launch = UserLaunch(facts, site, template, options)
    launch.notes += (named,) if named is not None else ()
    maps = host_maps(entry.kernel.parameters, site, problem_sizes(SAMPLE), aliases)
    scratch = chain.scratch if chain is not None else frozenset[str]()
    try:
        signature = _recognised(facts, options.signature, aliases, launch.constants, maps, site, scratch)
    except SignatureError as error:
        _name_others(error, [k for k in kernels if not options.entry and k.file != entry.kernel.file], project)
        raise
    signature = with_tied_extents(_with_null_pointers(signature, site, facts), facts, launch.constants, site)
    launch.notes += left_out_notes(signature, site)
    signature = with_constant_pitches(signature, facts, launch.constants)
    signature, tile_notes = with_tile_argument(signature, site, facts.reached)
    signature, site, assumed = with_assumed_tile(signature, site)
    if assumed and site is not None:
        launch = UserLaunch(facts, site, template, options)
        launch.notes += (assumed_note(site, assumed),)
    launch.notes += tile_notes
    if not options.signature and (found := vector_product(entry.kernel, signature)) is not None:
        raise SignatureError(
            f"{entry.kernel.name} multiplies a matrix and a vector{found}: check judges products of two matrices",
            found.hint,
        )
    if not options.signature and site is not None:
        by_name, signature = signature, with_exchanged_arguments(signature)
        launch.notes += _exchange_note(by_name, signature, site)
    launch = launch.with_maps(maps)
    launch.second = chain.second if chain is not None else None
    launch, signature = launch.with_computed(signature)
    launch, signature = launch.with_passed(signature)
    signature = launch.with_only_scalars(signature)
    own = dict(options.defines)
    defines = (*options.defines, *((n, v) for n, v in {**template, **given}.items() if n not in own))
    return _Read(replace(options, defines=defines), entry, launch.read_as(signature), defines, aliases)


def _rewritten(
    path: Path, options: UserOptions, project: Project, kernels: list[KernelSource], entry: Entry,
    chain: KernelChain | None,
) -> _Read | None:  # fmt: skip
    """The kernel as it is read from a changed copy, where NVRTC or a launch by ``check`` needs one; else None."""
    kernel, sources = entry.kernel, project.sources(path)
    named = replace(options, entry=options.entry or kernel.qualified)
    alone = without_overloads(kernel, kernels, options.edited)
    if alone != options.edited:
        return _read_now(path, replace(named, edited=alone), chain)
    given = dict((*entry.given(), *options.defines))
    aliases = KernelFacts(project, kernel, tuple(given.items())).aliases({})
    edited = taken_by_value(kernel, sources, aliases, options.edited)
    if edited != options.edited:
        read = _read_now(path, replace(named, edited=edited), chain)
        read.launch.notes += (by_value_note(kernel, sources, aliases),)
        return read
    edited = passed_as_arguments(kernel, sources, options.edited)
    if edited != options.edited:
        read = _read_now(path, replace(named, edited=edited), chain)
        read.launch.notes += (passed_note(kernel, sources),)
        return read
    return None


def _name_others(error: SignatureError, others: list[KernelSource], project: Project) -> None:
    """Name the products among other kernels of its headers in the hint of a refusal."""
    products = [kernel for kernel in others if is_product(project, kernel)]
    if products:
        names = ", ".join(dict.fromkeys(kernel.qualified for kernel in products[:_SHOWN]))
        error.hint = f"{error.hint}\nits headers have other kernels ({names}): choose one with --entry NAME"


def _recognised(
    facts: KernelFacts, declared: str, aliases: Mapping[str, str], constants: Mapping[str, int],
    maps: tuple[HostMap, ...], site: SiteValues | None = None, scratch: frozenset[str] = frozenset(),
) -> Signature:  # fmt: skip
    passed, computed = (site.site.arguments, site.computed()) if site is not None else ((), ())
    refuse_pointed(facts.kernel.name, facts.kernel.parameters, facts.sources)
    refuse_row_pointers(facts.kernel.name, facts.kernel.parameters, facts.kernel.body, aliases)
    flat = flat_parameters(facts.kernel.parameters, facts.sources, aliases)
    parameters = [(parameter.type, parameter.name) for parameter in flat]
    places = [parameter.place for parameter in flat] if len(flat) > len(facts.kernel.parameters) else []
    on = passed_on(facts.project, facts.kernel, flat, passed, site)
    if places:
        names = [parameter.name for parameter in flat]
        passed, computed = flat_arguments(passed, names, places), flat_arguments(computed, names, places)
    # Device functions call their own matrices A, too: what they do to A.elements tells nothing about the kernel's.
    body = facts.kernel.body if places else facts.reached
    own = scratch_names(parameters, passed, site, body)
    shared = own if places else scratch | own
    counters = counters_at(site.site.frame) if site is not None else frozenset[str]()
    alone = () if places else passed
    host = HostArguments(passed, computed, places, map_parameters(maps), shared, _left_out(parameters, alone), counters,
                         on)  # fmt: skip
    text = KernelText(body, aliases, constants, facts.macros, facts.unread | facts.unread_members(flat))
    return recognise(facts.kernel.name, parameters, text, host, declared)


def _exchange_note(by_name: Signature, passed: Signature, site: SiteValues) -> tuple[FoundValue, ...]:
    """What the report says where the launch passes a leading dimension or a scalar for another one."""
    pairs = zip(by_name.arguments, passed.arguments, strict=True)
    told = ", ".join(f"{arg.name} gets {arg.at_launch}" for before, arg in pairs if before.role != arg.role)
    return (FoundValue("arguments", told, site.site.shown(), site.site.text),) if told else ()


def _left_out(parameters: list[tuple[str, str]], passed: tuple[str, ...]) -> frozenset[str]:
    """The names of parameters for which host code passes a null pointer as such."""
    return frozenset(name for (_, name), text in zip(parameters, passed, strict=False) if text in ("nullptr", "NULL"))


def _with_null_pointers(signature: Signature, site: SiteValues | None, facts: KernelFacts) -> Signature:
    """The signature, where a pointer without a role is one that host code may leave out: for debugging, mostly. So is a
    further array of pointers that the kernel asks whether it is there: check builds such arrays of A, B and C alone."""
    signature = replace(signature, arguments=tuple(map(without_further_table, signature.arguments)))
    if site is None or not any(arg.code == "P" for arg in signature.unknown):
        return signature
    passed = site.site.arguments
    arguments = []
    for i, arg in enumerate(signature.arguments):
        place = signature.place(i)
        null = not arg.role and arg.code == "P" and place < len(passed)
        null = null and (may_be_null(passed[place], site.site.frame) or may_be_left_out(arg, facts.reached))
        arguments.append(replace(arg, role="0") if null else arg)
    return replace(signature, arguments=tuple(arguments))


def launched_name(path: Path, entry: str) -> str:
    """The name expression of any kernel of a file, product or not, with the template values of its launch."""
    project = Project(path, ())
    kernels = [kernel for source in project.sources(path) for kernel in source.kernels]
    found = choose_entry(path, kernels, entry, lambda _: False)
    facts = KernelFacts(project, found.kernel, tuple(found.given()))
    site = facts.site(Roles((), tuple(parameter.name for parameter in found.kernel.parameters)))
    values = (site.template()[0] if site is not None else {}) | dict(found.given())
    return name_expression(found.kernel, values, FP32)


def guessed_values(path: Path, options: UserOptions) -> Iterator[tuple[tuple[str, str], ...]]:
    """Values to try for the parameters of a kernel template that nothing gives one, the likeliest first."""
    read = _read(path, options)
    return guesses_for(read.launch.facts, without_value(read.entry.kernel, dict(read.defines)))


def _text(path: Path) -> str:
    if path.is_dir():
        raise UnknownKernelError(f"{path} is a folder, not a .cu file", "give the path of a .cu file in it")
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}", "give the path of a .cu file, or the name of a rung")
    return read_text(path)


def _roles(facts: KernelFacts, options: UserOptions) -> Roles:
    """What the parameters mean, as far as their names tell before the template's values are known."""
    names, aliases = tuple(parameter.name for parameter in facts.kernel.parameters), facts.aliases({})
    maps = named_maps(facts.kernel.parameters, aliases)
    try:
        signature = _recognised(facts, options.signature, aliases, facts.values({}), maps)
    except GemmsmithError:
        return Roles(tuple(options.signature.split(",")) if options.signature else (), names)
    return roles_of(signature)


def is_product(project: Project, kernel: KernelSource) -> bool:
    """Whether the parameters of a kernel are those of a product, as far as they are read."""
    signature = _read_alone(project, kernel)
    return signature is not None and not signature.unknown and vector_product(kernel, signature) is None


def has_operands(project: Project, kernel: KernelSource) -> bool:
    """Whether a kernel takes A, B and C in a struct, and uses them, whatever else it takes."""
    signature = _read_alone(project, kernel)
    return signature is not None and any("." in arg.name for arg in signature.arguments)


def _read_alone(project: Project, kernel: KernelSource) -> Signature | None:
    """The signature of a kernel without its launch; None where it is none of a product, or the kernel names A or B
    nowhere: one that only scales C may take a struct with all of them."""
    facts = KernelFacts(project, kernel, ())
    aliases = facts.aliases({})
    try:
        refuse_packed(kernel.name, kernel.parameters, facts.reached, aliases)
        signature = _recognised(facts, "", aliases, facts.values({}), named_maps(kernel.parameters, aliases))
    except GemmsmithError:
        return None
    members = [arg for arg in signature.arguments if arg.role in ("A", "B") and "." in arg.name]
    used = all(re.search(rf"\b{re.escape(own_name(arg.name))}\b", facts.reached) for arg in members)
    return signature if used else None
