"""A kernel's name as C++ spells it, with the values of its template's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gemmsmith.errors import TemplateValueError
from gemmsmith.problem import DType
from gemmsmith.userfile.launches.template_guesses import template_guesses
from gemmsmith.userfile.text.parts import KernelSource, TemplateParameter


def name_expression(kernel: KernelSource, values: Mapping[str, str], dtype: DType) -> str:
    """The kernel's name as C++ spells it: a template's with its arguments, "ns::gemm<64, float>".

    Arguments that are not among ``values`` keep their defaults; a type without one is the type of the inputs.
    """
    if kernel.template is None:
        return kernel.qualified
    given = [i for i, parameter in enumerate(kernel.template) if parameter.name in values or not parameter.default]
    arguments: dict[str, str] = {}
    for parameter in kernel.template[: max(given, default=-1) + 1]:
        if parameter.pack:
            break
        text = values.get(parameter.name) or parameter.default
        if not text and parameter.kind != "typename":
            raise _no_value(kernel, without_value(kernel, values))
        known = re.sub(r"[A-Za-z_]\w*", lambda word: arguments.get(word[0], word[0]), text)
        arguments[parameter.name] = known or dtype.cuda
    return f"{kernel.qualified}<{', '.join(arguments.values())}>"


def without_value(kernel: KernelSource, values: Mapping[str, str]) -> tuple[TemplateParameter, ...]:
    """The parameters of a kernel template that nothing gives a value; a type without one is that of the inputs."""
    return tuple(p for p in kernel.template or () if not p.pack and p.kind != "typename"
                 and not (values.get(p.name) or p.default))  # fmt: skip


def _no_value(kernel: KernelSource, missing: Sequence[TemplateParameter]) -> TemplateValueError:
    *others, last = (parameter.name for parameter in missing)
    names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    guess = next(template_guesses(missing), ())
    example = " ".join(f"-D {name}={value}" for name, value in guess or ((p.name, "64") for p in missing))
    shown = ", ".join(f"{parameter.name}=…" for parameter in kernel.parameters)
    return TemplateValueError(
        f"{kernel.name} is a template, and no launch in the repository says what {names}",
        f"give {'every value' if others else 'the value'}, for example {example}; and if the kernel is not a matrix "
        f"product, run it with your own arguments: {example} --grid … --block … --args '{shown}'",
        tuple(parameter.name for parameter in missing),
    )


def template_names(kernel: KernelSource) -> set[str]:
    """Names that are no macros: ``-D BM=64`` would turn ``template <int BM>`` into ``template <int 64>``."""
    return {parameter.name for parameter in kernel.template or ()}
