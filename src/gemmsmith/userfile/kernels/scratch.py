"""Arrays that a kernel's blocks share besides its matrices: partial sums, counters, locks, flags.

Host code allocates them, may set them to zero, and never copies them. Their sizes are evaluated for every problem, as
the launch's own numbers are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.role_names import pointer_role, words
from gemmsmith.problem import INT32
from gemmsmith.userfile.host.host_allocations import allocates
from gemmsmith.userfile.host.host_frame import Asked, Frame
from gemmsmith.userfile.host.values import evaluate_int
from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.text.preprocessor import closing

# What such arrays are called where host code does not show who allocates them.
_NAMES = frozenset((
    "workspace", "ws", "wksp", "scratch", "partial", "partials", "lock", "locks", "mutex", "semaphore", "semaphores",
    "sem", "counter", "counters", "ticket", "tickets", "flag", "flags", "barrier", "barriers",
))  # fmt: skip
_MEMSET = 3  # its arguments: array, value, bytes
_MATRICES = 3  # A, B and C: fewer pointers are left in no product
# What an element is bound to: an object made from it (atomic_ref<int> flag(flags[i])), or a reference.
_REFERENCE = re.compile(r"(?:[\w>]\s+\w+\s*[({]|>\s*[({]|&\s*\w+\s*=)\s*$")
_NEAR = 120  # characters before an element in which that is looked for
_UNSET = re.compile(r"\bempty(?:_like)?\s*\(")  # PyTorch's tensors
_TO_HOST = re.compile(r"\bcudaMemcpy\w*\s*\([^;]*cudaMemcpyDeviceToHost[^;]*;")
_CALL = r"\bcuda(?:Malloc|Memset|Free)\w*\s*\("


def scratch_names(
    parameters: Sequence[tuple[str, str]], passed: Sequence[str], site: SiteValues | None, body: str = ""
) -> frozenset[str]:
    """Those of the kernel's (type, name) that are such arrays: by what host code does with them, which passes these
    texts, or by name.

    Integers that the kernel's ``body`` only reads are none: they say where something is, as in a sparse matrix.
    """
    pointers = [(i, kind, name) for i, (kind, name) in enumerate(parameters) if parameter_type(kind, {}).stars == 1]
    free = [(i, name) for i, kind, name in pointers if "const" not in kind.split() and not pointer_role(name)]
    found = {name for i, name in free if site is not None and i < len(passed) and _only_shared(passed[i], site)}
    found |= {name for _, name in free if set(words(name)) & _NAMES}
    counts = {name for _, kind, name in pointers if _is_count(kind)}
    if len(pointers) - len(counts) >= _MATRICES:  # the matrices have another type: these are no matrices
        found |= {name for _, name in free if name in counts}
    found -= {name for name in found & counts if _is_only_read(name, body)}
    return frozenset(found) if len(pointers) - len(found) >= _MATRICES else frozenset()


def _is_count(kind: str) -> bool:
    """Whether a pointer's elements are integers of 32 or 64 bits."""
    pointed = parameter_type(kind, {})
    return pointed.element == INT32 or (pointed.element is None and pointed.is_integer)


def _is_only_read(name: str, body: str) -> bool:
    """Whether every use of an array in ``body`` is an element's value: no store, no atomic, no pointer to it."""
    uses = list(re.finditer(rf"(?P<before>[&*]|\+\+|--)?\s*\b(?P<name>{re.escape(name)})\b\s*(?P<index>\[)?", body))
    for use in uses:
        if use["before"] in ("&", "++", "--") or use["index"] is None:
            return False
        after = body[closing(body, use.end() - 1) + 1 :].lstrip()
        before = body[max(0, use.start("name") - _NEAR) : use.start("name")]
        if _REFERENCE.search(before) or re.match(r"(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--", after):
            return False
    return bool(uses)


def sets_to_zero(text: str, frame: Frame) -> bool:
    """Whether the function that launches a kernel, or the one that owns the array, sets it to zero."""
    name, owner = _owner(text, frame)
    own = uncast(text)
    places = [(own, frame), *([(name, owner)] if owner is not None else [])]
    return any(at.function is not None and memset_of(each).search(at.function.body) is not None for each, at in places)


def uncast(text: str) -> str:
    """What is passed, without a cast to a pointer."""
    return re.sub(r"^\(\s*[\w:\s]+\*+\s*\)\s*", "", text.strip())


def memset_of(name: str) -> re.Pattern[str]:
    """Calls that set an array to zero, or a part of it."""
    return re.compile(rf"\bcudaMemset\w*\s*\(\s*(?:\([^()]*\)\s*)?{re.escape(name)}\s*,\s*(?:0x)?0\b")


def cleared_bytes(text: str, values: SiteValues, sizes: Mapping[str, int]) -> tuple[int, str] | None:
    """How many bytes of the array the launching function sets to zero, and the call that does; None where it does not,
    does it in several calls, or that is not understood."""
    function = values.site.frame.function
    own = uncast(text)
    calls = list(memset_of(own).finditer(function.body)) if function is not None else []
    if function is None or len(calls) != 1:
        return None
    start = calls[0].start()
    opened = function.body.index("(", start)
    end = closing(function.body, opened)
    given = split_template(function.body[opened + 1 : end])
    if function.body[start:opened].strip() not in ("cudaMemset", "cudaMemsetAsync") or len(given) < _MEMSET:
        return None
    try:
        found = int(evaluate_int(given[2], values.scope(sizes, Asked())))
    except (GemmsmithError, RecursionError, ArithmeticError):
        return None
    return found, " ".join(function.body[start : end + 1].split())


def adds_into(name: str, code: str) -> bool:
    """Whether a kernel may add to the elements of an array, so that they must hold numbers before."""
    own = rf"\b{re.escape(name)}\s*\["
    return "atomic" in code or "red." in code or re.search(rf"{own}[^;=]*\]\s*(?:[-+]=|=[^;]*{own})", code) is not None


def begins_as_zeros(text: str, frame: Frame) -> bool:
    """Whether host code allocates the array as PyTorch's zeros, or sets it to zero."""
    return _is_made_of_zeros(*_owner(text, frame)) or sets_to_zero(text, frame)


def is_zeroed(text: str, frame: Frame) -> bool:
    """Whether host code sets the array to zero, or does not show who allocates it."""
    name, owner = _owner(text, frame)
    if _is_made_of_zeros(name, owner):
        return True
    if owner is None or owner.function is None or not allocates(name, owner):
        variable = owner.locals.variables.get(name) if owner is not None else None
        return variable is None or not _UNSET.search(variable.value)
    return sets_to_zero(text, frame)


def _is_made_of_zeros(name: str, owner: Frame | None) -> bool:
    """Whether a tensor, which may be passed as ``C.data_ptr<float>()``, is PyTorch's zeros."""
    tensor = re.match(r"\w+", name)
    if tensor is None or owner is None or owner.function is None:
        return False
    made = rf"\b{tensor[0]}\s*=\s*(?:\w+(?:::|\.))*zeros(?:_like)?\s*\("
    return re.search(made, owner.function.body) is not None


def is_never_set(text: str, frame: Frame) -> bool:
    """Whether host code shows that nothing sets an array before the launch: it is allocated, launched with, copied back
    or returned, freed, and nothing else happens to it."""
    name, owner = _owner(text, frame)
    if owner is None or owner.function is None:
        return False
    if (tensor := _tensor_of(name)) and (variable := owner.locals.variables.get(tensor)) is not None:
        body = re.sub(
            rf"\breturn\s+{tensor}\s*;|\b{tensor}\s*\.\s*(?:size|stride|dim|numel)\b", ";", owner.function.body
        )
        return _UNSET.search(variable.value) is not None and _uses(tensor, body) == len(("declared", "launched"))
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or not allocates(name, owner):
        return False
    body = _TO_HOST.sub(";", owner.function.body)
    body = re.sub(r"\bcuda(?:Malloc\w*|Free\w*)\s*\([^;]*;", ";", body)
    declared = rf"\*\s*{re.escape(name)}\s*(?:=[^;,]*)?[;,]"
    return _uses(name, re.sub(declared, ";", body)) == 1  # the launch


def is_result(text: str, frame: Frame) -> bool:
    """Whether host code copies an array back, or returns a tensor."""
    name, owner = _owner(text, frame)
    if owner is None or owner.function is None:
        return False
    body, tensor = owner.function.body, _tensor_of(name)
    returned = tensor and re.search(rf"\breturn\s+{tensor}\s*;", body) is not None
    return bool(returned) or any(_uses(name, copy[0]) for copy in _TO_HOST.finditer(body))


def _tensor_of(text: str) -> str:
    """The tensor of ``c.data_ptr<float>()``; empty for other texts."""
    match = re.match(r"([A-Za-z_]\w*)\s*(?:\.|->)\s*(?:mutable_|const_)?data(?:_ptr)?\b", text)
    return match[1] if match is not None else ""


def _uses(name: str, body: str) -> int:
    return len(re.findall(rf"\b{re.escape(name)}\b", body))


def _owner(text: str, frame: Frame) -> tuple[str, Frame | None]:
    """The variable that is passed, by its name in the function that it belongs to; None if callers are not known."""
    at: Frame | None = frame
    name = uncast(text)
    while at is not None and at.function is not None:
        places = [i for i, p in enumerate(at.function.parameters) if p.name == name]
        if not places:
            return name, at
        if places[0] >= len(at.arguments):
            return name, None
        name, at = at.arguments[places[0]], at.caller
    return name, at


def _only_shared(text: str, site: SiteValues) -> bool:
    """Whether host code allocates the array, and does nothing but set it, launch the kernel with it and free it."""
    name, owner = _owner(text, site.site.frame)
    if owner is None or owner.function is None or not re.fullmatch(r"[A-Za-z_]\w*", name):
        return False
    if not allocates(name, owner):
        return False
    body = owner.function.body
    for match in reversed(list(re.finditer(_CALL, body))):
        body = body[: match.start()] + body[closing(body, match.end() - 1) :]
    declared = rf"\*\s*{re.escape(name)}\s*(?:=[^;,]*)?[;,]"
    return _uses(name, re.sub(declared, ";", body)) <= 1  # the launch
