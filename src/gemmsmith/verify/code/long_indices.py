"""Whether a kernel's author computes indices in 64 bits: who does means to go beyond 2³¹ elements."""

from __future__ import annotations

import math
import re

from gemmsmith.kernel.signature import strip_comments
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.launches.product_axis import product_number
from gemmsmith.verify.formula.documented import documented
from gemmsmith.verify.oracles.promises import says_all_of_memory
from gemmsmith.verify.trials.trial import matrix_of

_LONG = re.compile(r"\b(?:size_t|ptrdiff_t|u?int64_t|long)\b(?!\s*(?:const\s*)?\*)")  # no pointers to eight bytes
_COUNTER = re.compile(r"\bfor\s*\(\s*[\w:\s]*?\b(?:size_t|u?int64_t|long)\s+\w+\s*=\s*0\w*\s*;")  # not of blocks
_SHARED_ADDRESS = re.compile(r"\b(?:size_t|uint64_t)\s+\w+\s*=[^;]*__cvta_generic_to_shared")
_CAST_ELEMENT = re.compile(r"\(\s*(?:std::)?(?:u?int64_t|long(?:\s+long)?(?:\s+int)?)\s*\)\s*\w+\s*\[")
_SUM = re.compile(r"\b(?:std::)?(?:u?int64_t|(?:unsigned\s+)?long(?:\s+long)?)\s+(\w+)\s*=\s*0\w*\s*;")
# ``size_t row = blockIdx.y * TILE;``: the number of a row of C, no index of an element yet
_PLACE = re.compile(
    r"\b(?:const\s+)?(?:std::)?(?:size_t|u?int64_t)\s+(?:const\s+)?(\w+)\s*=\s*((?:blockIdx|threadIdx)\.[xyz][^;,=]*);"
)
# Barriers and matrix descriptors have 64 bits, whatever the indices have.
_HOPPER_LONG = re.compile(r"\bu(?:nsigned\s+long\s+long|int64_t)\b")
# The number of a product in a batch: the offset of its matrices may need 64 bits where none of their indices does.
_ALONG_Z = "blockIdx.z"
_EXTENT = re.compile(r"\b(?:[MNK]|ld[abc]?)\b")
_TYPE = r"(?:std::)?(?:size_t|ptrdiff_t|u?int64_t|(?:unsigned\s+)?long(?:\s+long)?(?:\s+int)?)"
_DECLARED = re.compile(rf"\b{_TYPE}\s+(?:const\s+)?(?!int\b)(\w+)\s*[=;,)]")
_SIDES = {"A": "MK", "B": "KN", "C": "MN", "D": "MN"}
_ELEMENTS = 2**31
_IN_64_BITS = re.compile(rf"\b(?:static_cast\s*<\s*(?:const\s+)?)?{_TYPE}\s*[>)(]|\b\d+[uU]?(?:ll|LL|l|L)[uU]?\b")


def is_row_long(role: str) -> bool:
    """Whether an argument with this role is an extent or a leading dimension, or ends with one: ``8 * K``. A product of
    two is the size of a matrix, by which those of a batch lie apart."""
    return re.search(r"\b(?:[MNK]|ld[abc]?)$", role) is not None and len(_EXTENT.findall(role)) == 1


def computes_long_indices(code: str, number: str = _ALONG_Z) -> bool:
    """Whether ``code``, without comments, has 64-bit numbers that may be indices of elements. ``number``: the block
    index that numbers the products of a batch.

    Counters of loops, sums, elements, addresses in shared memory, offsets of a product in its batch and places of a
    thread in C are none, as long as nothing is multiplied with such a place: ``int m = row + ty;`` goes on in 32 bits.
    """
    code = _without_batches(code, number)
    code = _CAST_ELEMENT.sub(" [", _COUNTER.sub(" ", _SHARED_ADDRESS.sub(" ", code)))
    for match in list(_SUM.finditer(code)):  # ``long long sum = 0;``: of elements, where no index has it
        if not re.search(rf"\[[^\]]*\b{match[1]}\b|\+=?\s*{match[1]}\b", code):
            code = code.replace(match[0], " ")
    for match in list(_PLACE.finditer(code)):
        rest = code.replace(match[0], " ")
        if not re.search(rf"\b{match[1]}\b\s*\)?\s*\*|\*\s*\(?\s*{match[1]}\b", rest):
            code = rest
    return _LONG.search(code) is not None


def indexes_in_64_bits(code: str, pointer: str, number: str = _ALONG_Z) -> bool | None:
    """Whether an index of ``pointer``, or of a pointer made of it, has 64-bit parts; None where this is not seen.

    A kernel may widen the indices of A and leave those of the others in ``int``: then a large A is meant, a large C is
    not. ``code`` is the kernel with what it calls, without comments.
    """
    code = _without_batches(code, number)
    names, indices = [pointer], list[str]()
    for name in names:  # grows by pointers that are made of those before
        if re.search(rf"[(,]\s*&?\s*{re.escape(name)}\s*[,)]", code):
            return None  # given to a function
        indices += _indices(code, name)
        made = re.findall(rf"\*\s*(?:const\s+|__restrict__\s+)*(\w+)\s*=\s*&?\s*\(?\s*{re.escape(name)}\b", code)
        names += [each for each in made if each not in names]
    if not indices:
        return None
    long_names = set(_DECLARED.findall(code))
    return any(_IN_64_BITS.search(each) or long_names & set(re.findall(r"\w+", each)) for each in indices)


def _indices(code: str, name: str) -> list[str]:
    """What stands in brackets behind ``name``, and what is added to it."""
    found = re.findall(rf"\b{re.escape(name)}\s*(?:\+=|\+)\s*([^;,]*)", code)
    for match in re.finditer(rf"\b{re.escape(name)}\s*\[", code):
        depth = 1
        for at in range(match.end(), len(code)):
            depth += {"[": 1, "]": -1}.get(code[at], 0)
            if depth == 0:
                found.append(code[match.end() : at])
                break
    return found


def _without_batches(code: str, index: str) -> str:
    """``code`` without ``(size_t)blockIdx.z * M * K``, and without the declarations that such an offset needs: of the
    product's number, of a stride that it is multiplied by, and of a variable for the offset itself."""
    copies = re.findall(rf"\b(\w+)\s*=\s*(?:\(\s*[\w\s]+\)\s*)?{re.escape(index)}\s*[;,]", code)
    number = "|".join(map(re.escape, dict.fromkeys((index, *copies))))
    factors = re.findall(rf"\b(?:{number})\b\s*\)?\s*\*\s*(\w+)|\b(\w+)\s*\*\s*(?:{number})\b", code)
    strides = [after or before for after, before in factors]
    cast = rf"(?:\(\s*{_TYPE}\s*\)\s*|(?:static_cast\s*<\s*)?{_TYPE}\s*>?\s*\(\s*)\(?\s*(?:{number})\b"
    offset = rf"(?:{cast}|(?:{number})\b)\s*\)?\s*[*;]"
    code = re.sub(rf"\b(?:const\s+)?{_TYPE}\s+(?:const\s+)?\w+\s*=\s*(?={offset})", " ", code)
    code = re.sub(cast, " ", code)
    for stride in dict.fromkeys(strides):
        if len(re.findall(rf"\b{stride}\b", code)) == strides.count(stride) + 1:  # where it is declared, too
            code = re.sub(rf"\b(?:const\s+)?{_TYPE}\s+(?:const\s+)?{stride}\b", " ", code)
    return code


def means_long_indices(spec: KernelSpec, matrix: str) -> bool:
    """Whether extents are 64-bit numbers, or the kernel computes indices of ``matrix`` in 64 bits; not where comments
    bound it to fewer than 2³¹ elements."""
    if (_documented_elements(spec, matrix) or math.inf) <= _ELEMENTS:
        return False
    facts = getattr(spec.geometry, "facts", None)
    code = strip_comments(str(getattr(facts, "reached", "")) or spec.code)
    if spec.tensor_maps is not None:
        code = _HOPPER_LONG.sub(" ", code)
    wide = any(arg.code in ("q", "Q") and is_row_long(arg.role) for arg in spec.signature.arguments)
    number = product_number(code)[0] if getattr(spec.geometry, "counts_products", False) else "blockIdx.z"
    if wide or not computes_long_indices(code, number):
        return wide

    def seen(matrix: str) -> list[bool | None]:
        pointers = {arg.name for arg in spec.signature.arguments if arg.role == matrix and arg.code == "P"}
        return [indexes_in_64_bits(code, name, number) for name in pointers]

    own, operands = seen(matrix), [*seen("A"), *seen("B")]
    if not own or any(each is not False for each in own):
        return True
    # A wide A alone may be a long K. Where B is wide, too, so may M and N be, and C with them.
    return matrix in ("C", "D") and len(operands) == 2 and all(each is True for each in operands)


def means_beyond(spec: KernelSpec, problem: Problem, label: str) -> bool:
    """Whether a kernel was meant for ``problem``, of which the matrix that ``label`` names has more than 2³¹ elements,
    in one product or in all of a batch."""
    offsets = problem.batch > 1 and (means_long_offsets(spec) or says_all_of_memory(spec))
    return offsets or means_long_indices(spec, matrix_of(label)[0]) or claims_beyond(spec, matrix_of(label)[0])


def claims_beyond(spec: KernelSpec, matrix: str) -> bool:
    """Whether comments name extents up to which a matrix has more than 2³¹ elements: "rows up to 131072"."""
    return (_documented_elements(spec, matrix) or 0) > _ELEMENTS


def _documented_elements(spec: KernelSpec, matrix: str) -> int | None:
    """How many elements a matrix has at most, where comments bound both of its extents."""
    names = {axis: spec.signature.named(axis) for axis in _SIDES.get(matrix, "") if spec.signature.has(axis)}
    limits = documented(spec.code, list(names.values())).limits
    most = {name: bound for name, sign, bound in limits if sign.startswith("<")}
    bounded = len(names) == 2 and all(name in most for name in names.values())
    return math.prod(most[name] for name in names.values()) if bounded else None


def means_long_offsets(spec: KernelSpec) -> bool:
    """Whether the strides of a batch are 64-bit numbers, or the kernel computes offsets of products in 64 bits."""
    facts = getattr(spec.geometry, "facts", None)
    code = strip_comments(str(getattr(facts, "reached", "")) or spec.code)
    wide = any(arg.code in ("q", "Q") and arg.role.startswith("stride") for arg in spec.signature.arguments)
    number = product_number(code)[0] if getattr(spec.geometry, "counts_products", False) else _ALONG_Z
    return wide or _without_batches(code, number) != code
