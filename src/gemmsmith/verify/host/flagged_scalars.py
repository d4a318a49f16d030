"""Alpha and beta that an instance of a template never reads, since a template argument says so.

template <bool HAS_BETA> __global__ void gemm(…, float beta) { … if constexpr (HAS_BETA) sum += beta * C[i]; … }

With another value of that argument the kernel reads them: they are left out on purpose. A kernel that never reads them,
whatever its arguments are, is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.kernels.name_expression import name_expression
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.code.written import used_parameters

_NEUTRAL = {"alpha": "1", "beta": "0"}
_OTHER = {"true": "false", "false": "true", "1": "0", "0": "1"}
_MOST = 5  # instances that are compiled


def with_flagged_scalars(
    spec: KernelSpec, compiled: CompiledKernel, compile_as: Callable[[KernelSpec], CompiledKernel]
) -> tuple[KernelSpec, tuple[str, ...]]:
    """The kernel without such scalars, and what to say of them."""
    if spec.is_rung or spec.declared_signature or not isinstance(spec.geometry, UserLaunch):
        return spec, ()
    signature = spec.signature
    # Host code that chooses instances by alpha or beta is to choose the right one.
    unread = [] if spec.geometry.scalars_decide else _unread(spec, compiled)
    flags: dict[str, str] = {}
    if not unread:
        return spec, ()
    for values, changed in _other_values(spec.geometry):
        try:
            entry = name_expression(spec.geometry.facts.kernel, values, spec.dtypes[0])
            other = compile_as(replace(spec, entry=entry))
        except GemmsmithError:
            continue
        flags |= {role: changed for role in unread if role not in flags and role not in _unread(spec, other)}
        if len(flags) == len(unread):
            break
    if not flags:
        return spec, ()
    arguments = tuple(
        replace(arg, role=_NEUTRAL[arg.role]) if arg.role in flags else arg for arg in signature.arguments
    )
    lines = [f"with {changed} it never reads {signature.named(role)}, so that is {_NEUTRAL[role]} in every trial"
             for role, changed in flags.items()]  # fmt: skip
    return spec.read_as(replace(signature, arguments=arguments), spec.layouts[0]), tuple(lines)


def _unread(spec: KernelSpec, compiled: CompiledKernel) -> list[str]:
    """Alpha and beta, where the code never loads them."""
    signature, used = spec.signature, used_parameters(compiled.ptx, compiled.entry)
    places = {arg.role: signature.place(i) for i, arg in enumerate(signature.arguments)
              if arg.role in _NEUTRAL and "." not in arg.name}  # fmt: skip
    return [role for role, place in places.items() if place not in used]


def _other_values(launch: UserLaunch) -> Iterator[tuple[Mapping[str, str], str]]:
    """The template's values with flags changed, one after another and then all; and the flags with their own values."""
    own = {p.name: p.default for p in launch.facts.kernel.template or () if p.default}
    own |= {**launch.template, **launch.facts.given}
    flags = [p.name for p in launch.facts.kernel.template or () if p.kind != "typename" and own.get(p.name) in _OTHER]
    groups = [[name] for name in flags] + ([flags] if len(flags) > 1 else [])
    for group in groups[:_MOST]:
        shown = ", ".join(f"{name}={own[name]}" for name in group)
        yield {**own, **{name: _OTHER[own[name]] for name in group}}, shown
