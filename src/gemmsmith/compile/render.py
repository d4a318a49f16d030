"""From a kernel and its configuration to exactly what the compiler is given."""

from __future__ import annotations

from gemmsmith.compile.request import CompileRequest
from gemmsmith.compile.target import check_target, with_features
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.compile.user_source import UserSource, own_headers
from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import ACTIVATIONS, BIASES, FP32, DType, Problem
from gemmsmith.userfile.files.includes import bundle


def render_kernel(
    spec: KernelSpec,
    config: Config,
    *,
    dtype: DType,
    out_dtype: DType = FP32,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: str = "",
    activation: str = "",
    arch: str,
) -> CompileRequest:
    """What to compile for ``spec`` in ``config``; raises for a type, layout or architecture that the kernel lacks."""
    sample = Problem(1, 1, 1, dtype=dtype, out_dtype=out_dtype, trans_a=trans_a, trans_b=trans_b, bias=bias,
                     activation=activation)  # fmt: skip
    check_accepts(spec, sample)
    arch = check_target(spec, arch, dtype)
    if not spec.is_rung and UserSource.is_ours(spec.source):
        return _prologue(spec, _defines(spec, config, sample), arch)
    defines = _defines(spec, config, sample)
    if not spec.is_rung:
        unit = spec.unit or spec.source
        source = UserSource.read(unit, spec.include, find_toolchain(), spec.edited)
        return source.request(unit.name, spec.entry, defines, with_features(arch, source.texts))
    parts = bundle(spec.source, (own_headers(),))
    return CompileRequest(spec.source.name, parts.source, parts.headers, defines, arch, spec.entry, True, parts.files)


def render_for(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompileRequest:
    """``render_kernel`` for the types, layout and epilogue of a problem."""
    return render_kernel(
        spec, config, dtype=problem.dtype, out_dtype=problem.out_dtype, trans_a=problem.trans_a,
        trans_b=problem.trans_b, bias=problem.bias, activation=problem.activation, arch=arch,
    )  # fmt: skip


def _prologue(spec: KernelSpec, defines: tuple[tuple[str, str], ...], arch: str) -> CompileRequest:
    """A kernel that is launched before a rung: ours, so it is compiled as it is."""
    parts = bundle(spec.source, (own_headers(),))
    return CompileRequest(spec.source.name, parts.source, parts.headers, defines, arch, spec.entry, True, parts.files)


def _defines(spec: KernelSpec, config: Config, problem: Problem) -> tuple[tuple[str, str], ...]:
    """The configuration in declared order, then types, layout and epilogue where the kernel has several, then the
    user's own macros."""
    defines = []
    for parameter in spec.parameters:
        try:
            defines.append((parameter.name, str(config[parameter.name])))
        except KeyError:
            raise ConfigError(f"{spec.name}: the configuration {config} has no value for {parameter.name}") from None
    if len(spec.dtypes) > 1:
        defines.append(("IN", problem.dtype.cuda))
    if len(spec.out_dtypes) > 1:
        defines.append(("OUT", problem.out_dtype.cuda))
    if len(spec.layouts) > 1:
        defines += [("TRANS_A", str(int(problem.trans_a))), ("TRANS_B", str(int(problem.trans_b)))]
    if spec.epilogue:
        defines.append(("BIAS", str(BIASES.index(problem.bias))))
        defines.append(("ACTIVATION", str(ACTIVATIONS.index(problem.activation))))
    return (*defines, *spec.extra_defines)


__all__ = ["CompileRequest", "render_for", "render_kernel"]
