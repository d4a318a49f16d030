"""What the members of a kernel may be, by their names and uses: matrices, extents, leading dimensions, scalars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.pointer_use import written
from gemmsmith.kernel.role_names import (
    extent_role,
    is_batch,
    is_increment,
    leading_role,
    pointer_role,
    scalar_role,
    words,
)
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, UINT8
from gemmsmith.userfile.kernels.formula_kernel import EXTENTS, FormulaKernel, Member
from gemmsmith.userfile.kernels.scratch import scratch_names

_LEADING = re.compile(r"(?:ld|lead(?:ing)?(?:_?dim)?|pitch|stride)_?(\w*)|(\w+?)_?(?:ld|pitch|stride)", re.I)
_BATCHED = re.compile(r"batch_?stride_?(\w+)|stride_?batch_?(\w+)|(\w+?)_?batch_?stride|stride_?(\w+)|s_?([A-Z])")
_PARAMETERS = {
    "low": frozenset(("lo", "low", "min", "minimum", "lower", "floor")),
    "high": frozenset(("hi", "high", "max", "maximum", "upper", "cap", "limit", "ceil", "ceiling", "six")),
    "slope": frozenset(("slope", "neg", "negative", "leak", "leaky", "leakiness")),
}
_MOST_INPUTS = 4
_REALS = (FP32, FP16, BF16, FP64)
_OUTPUTS_OF_BYTES = (INT32, FP32)


@dataclass(frozen=True)
class Takes:
    """What a kernel takes, by the members' names.

    leading   each leading dimension with the matrix that it is named after; "" where the name tells none
    strides   the same of strides between the products of a batch
    scalars   alpha, beta, low, high and slope, as far as a number is called so; ``reals``: all others
    computed  integers that host code computes
    """

    output: str
    inputs: tuple[str, ...]
    scratch: tuple[str, ...]
    biases: tuple[str, ...]
    extents: tuple[str, ...]
    leading: Mapping[str, str]
    strides: Mapping[str, str]
    batch: str
    scalars: Mapping[str, str]
    reals: tuple[str, ...]
    computed: tuple[str, ...]


def takes(kernel: FormulaKernel) -> Takes:
    """What the kernel takes; raises ``SignatureError`` where something is of no kind that is known."""
    output, inputs, shared = _matrices(kernel)
    biases = tuple(each.name for each in inputs if pointer_role(each.own) == "bias")
    pointers = [output, *(each for each in inputs)]
    numbers = [each for each in kernel.members if each.is_integer]
    batch = next((each.name for each in numbers if is_batch(each.own)), "")
    extents, leading, strides, computed = list[str](), dict[str, str](), dict[str, str](), list[str]()
    lds = [each for each in numbers if _is_leading(each)]
    for each in numbers:
        if each.name == batch:
            continue
        if (batch and (owner := _batched_owner(each, pointers))) or _is_second(each, lds):
            strides[each.name] = owner or _leading_owner(each, pointers)
        elif _is_leading(each):
            leading[each.name] = _leading_owner(each, pointers)
        elif is_increment(each.own):
            computed.append(each.name)
        elif kernel.bound.get(each.name) in EXTENTS or (extent_role(each.own) and each.own.lower() not in ("lo", "hi")):
            extents.append(each.name)
        else:
            computed.append(each.name)
    extents += [
        name for name, role in kernel.bound.items() if name == role and name not in (m.name for m in kernel.members)
    ]
    scalars, reals = _scalars(kernel)
    odd = [each.name for each in kernel.members if not (each.is_pointer or each.is_integer or each.is_real)]
    if odd or not 1 <= len(extents) <= len("MNK"):
        raise _not_known(kernel)
    return Takes(output.name, tuple(each.name for each in inputs if each.name not in biases), shared, biases,
                 tuple(extents), leading, strides, batch, scalars, reals, tuple(computed))  # fmt: skip


def _matrices(kernel: FormulaKernel) -> tuple[Member, list[Member], tuple[str, ...]]:
    """The output, the inputs, and the names of arrays that blocks share."""
    pointers = [each for each in kernel.members if each.is_pointer]
    kinds = [(f"{'const ' if each.const else ''}{each.element.cuda if each.element else 'int'}*", each.name)
             for each in pointers]  # fmt: skip
    body = str(kernel.launch.facts.kernel.body if kernel.in_structs else kernel.body)
    shared = scratch_names(kinds, [each.passed for each in pointers], kernel.launch.site, body)
    rest = [each for each in pointers if each.name not in shared]
    free = [each for each in rest if not each.const]
    stored = written([each.name for each in free], body) or {each.name for each in free}
    outputs = [each for each in rest if each.name in stored]
    inputs = [each for each in rest if each.name not in stored]
    if len(outputs) != 1 or not 1 <= len(inputs) <= _MOST_INPUTS:
        raise _not_known(kernel)
    kinds_in, kind_out = {each.element for each in inputs}, outputs[0].element
    if not (kinds_in <= set(_REALS) and kind_out in _REALS) and not (
        kinds_in <= {INT8, UINT8} and kind_out in _OUTPUTS_OF_BYTES
    ):
        raise _not_known(kernel)
    return outputs[0], inputs, tuple(sorted(shared))


def _is_leading(member: Member) -> bool:
    return _LEADING.fullmatch(member.own) is not None


def _is_second(member: Member, lds: list[Member]) -> bool:
    """Whether it is a stride beside the leading dimension of the same matrix."""
    role = leading_role(member.own, batched=True)
    return role.startswith("stride") and any(
        leading_role(each.own, batched=False) == f"ld{role[-1].lower()}" and each is not member for each in lds
    )


def _leading_owner(member: Member, pointers: list[Member]) -> str:
    """The matrix that a leading dimension is named after: lda, ldx of x, ldo of out."""
    match = _LEADING.fullmatch(member.own)
    word = (match[1] or match[2] or "").lower() if match is not None else ""
    return _owner(word, pointers)


def _batched_owner(member: Member, pointers: list[Member]) -> str:
    match = _BATCHED.fullmatch(member.own)
    word = next(filter(None, match.groups()), "").lower() if match is not None else ""
    return _owner(word, pointers)


def _owner(word: str, pointers: list[Member]) -> str:
    """The pointer that a word stands for: its name, the beginning of it, or the letter of its role."""
    if not word:
        return ""
    for fits in (
        lambda each: each.own.lower() == word,
        lambda each: each.own.lower().startswith(word),
        lambda each: word in words(each.own),
        lambda each: pointer_role(each.own).lower() == word,
    ):
        found = [each.name for each in pointers if fits(each)]
        if len(found) == 1:
            return found[0]
    return pointers[0].name if word in ("c", "d", "o", "out", "y") else ""


def _scalars(kernel: FormulaKernel) -> tuple[dict[str, str], tuple[str, ...]]:
    found: dict[str, str] = {}
    reals = [each for each in kernel.members if each.is_real]
    for each in reals:
        told = set(words(each.own))
        role = scalar_role(each.own) or next((role for role, names in _PARAMETERS.items() if told & names), "")
        if role and role not in found:
            found[role] = each.name
    return found, tuple(each.name for each in reals if each.name not in found.values())


def _not_known(kernel: FormulaKernel) -> SignatureError:
    return SignatureError(f"{kernel.name} takes more than a formula of products is known to", "")
