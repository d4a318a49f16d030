"""Uncoalesced accesses tried with x and y swapped: threadIdx.x then walks along a row. A copy is compiled, checked
and counted again, and its change is shown as a diff."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from gemmsmith.cure.code import Program, below
from gemmsmith.cure.edit import Candidate, Edit, applied, unified
from gemmsmith.cure.launches import swapped_grid
from gemmsmith.errors import GemmsmithError
from gemmsmith.explain.access_pattern import AccessPattern
from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.findings import FULL_SECTOR
from gemmsmith.explain.padding_trial import Tried
from gemmsmith.explain.pattern_words import coalescing_fix, staging_fix
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.files.edited import Edited

Try = Callable[[Edited], Tried]
KIND = "uncoalesced global"
_AXIS = re.compile(r"(?:threadIdx|blockIdx|blockDim|gridDim)\.([xy])")
_INDEXED = re.compile(r"\b(\w+)\s*\[([^\[\]]+)\]")
_SET = re.compile(r"\b(\w+)\s*=\s*([^;=]*)[;,]")
_OTHER = {"/": "%", "%": "/"}
_WORTH = 1.02  # times as fast: less is no reason to change a kernel


def swap(program: Program) -> Candidate | None:
    """x and y swapped in the kernel, in what it calls, and in the grid; None where there is nothing to swap."""
    edits: list[Edit] = []
    for function in program.reached:
        code = function.code
        for node in below(function.body, "field_expression"):
            if match := _AXIS.fullmatch(code.of(node)):
                edits.append(Edit(code.path, node.end_byte - 1, node.end_byte, "y" if match[1] == "x" else "x"))
    axes = {edit.text for edit in edits}
    grid = swapped_grid(program)
    if axes != {"x", "y"} or not grid:
        return None
    return Candidate("swapped-axes", "neighbouring threads are in different rows", "swap x and y",
                     (*edits, *grid))  # fmt: skip


def swap_lanes(program: Program) -> Candidate | None:
    """`threadIdx.x / T` and `threadIdx.x % T` swapped, for blocks along x alone; None unless there are both."""
    edits: list[Edit] = []
    signs: dict[str, set[str]] = {}
    for function in program.reached[:1]:
        code = function.code
        for node in below(function.body, "binary_expression"):
            sign, left, right = (node.child_by_field_name(part) for part in ("operator", "left", "right"))
            if sign is None or left is None or right is None or code.of(left) != "threadIdx.x":
                continue
            if code.of(sign) in _OTHER:
                edits.append(Edit(code.path, sign.start_byte, sign.end_byte, _OTHER[code.of(sign)]))
                signs.setdefault(code.of(right), set()).add(code.of(sign))
    if len(signs) != 1 or set(*signs.values()) != set(_OTHER):
        return None
    (by,) = signs
    return Candidate("swapped-lanes", "neighbouring threads are in different rows",
                     f"swap threadIdx.x / {by} and threadIdx.x % {by}", tuple(edits))  # fmt: skip


def with_swap(found: Diagnosis, program: Program, attempt: Try, *, flat: bool = False) -> Diagnosis:
    """The diagnosis with what the swap did for uncoalesced accesses, if a copy is right and faster with it.
    ``flat``: blocks have threads along x alone."""
    first = next((each for each in found.findings if each.kind.startswith(KIND)), None)
    change = (swap_lanes if flat else swap)(program) if first is not None else None
    if first is None or change is None:
        return found
    try:
        tried = attempt(applied(change.edits, program.files))
    except GemmsmithError:
        return found
    gain = found.case.estimate.longest / max(tried.diagnosis.case.estimate.longest, 1e-12)
    if tried.wrong:
        return found
    if gain < _WORTH:
        staged = replace(first, fix=staging_fix(first.pattern), tried="Tried in a copy: swapping x and y is no faster.")
        return replace(found, findings=tuple(staged if each is first else each for each in found.findings))
    op = "st" if first.kind.endswith("stores") else "ld"
    before, after = (each.case.profile.sectors(op) / max(1, each.case.profile.requests(op))
                     for each in (found, tried.diagnosis))  # fmt: skip
    text = f"Tried in a copy: a request touches {after:.1f} sectors in place of {before:.1f}, and the result is right."
    what = f"{change.change[0].upper()}{change.change[1:]}"
    fix = f"{what}, so that neighbouring threads of a warp are in neighbouring columns:"
    made = replace(first, fix=fix, tried=text, diff=unified(change.edits, program.files), confirmed=True,
                   copy=tried.copy)  # fmt: skip
    return replace(found, findings=tuple(made if each is first else each for each in found.findings))


def with_staging(found: Diagnosis) -> Diagnosis:
    """The diagnosis without the advice to swap x and y, where that would scatter stores that are coalesced now."""
    first = next((each for each in found.findings if each.kind == f"{KIND} loads"), None)
    stored = found.case.profile.packed_per_sector[1]
    if first is None or first.confirmed or first.fix != coalescing_fix(None) or not stored >= FULL_SECTOR:
        return found
    staged = replace(first, fix=staging_fix(first.pattern))
    return replace(found, findings=tuple(staged if each is first else each for each in found.findings))


def with_array_names(found: Diagnosis, signature: Signature, counted: Problem, code: str) -> Diagnosis:
    """The diagnosis with the names of the matrices that uncoalesced accesses reach, as far as ``code`` tells."""
    findings = []
    for each in found.findings:
        pattern = each.pattern if each.kind.startswith(KIND) else None
        name = _array(pattern, signature, counted, found, code) if pattern is not None else ""
        findings.append(replace(each, pattern=replace(pattern, array=name)) if pattern is not None and name else each)
    return replace(found, findings=tuple(findings))


def _array(pattern: AccessPattern, signature: Signature, problem: Problem, found: Diagnosis, code: str) -> str:
    """The matrix that a line reads or writes; of several, the one whose rows are as long as the lanes are apart, and
    whose row follows from threadIdx.x."""
    roles = {arg.name: arg.role for arg in signature.arguments if arg.code == "P"}
    text = pattern.text.split("//")[0]
    if pattern.writes:
        text = text.partition("=")[0]
    indexed = [(name, index) for name, index in _INDEXED.findall(text) if name in roles]
    if len({name for name, _ in indexed}) < 2:
        return str(indexed[0][0]) if indexed else ""
    depth = found.case.profile.sampled_depth or problem.k
    lengths = {"M": {problem.m}, "N": {problem.n}, "K": {problem.k, depth, depth // 2}}
    apart = abs(pattern.stride or 0) // max(1, pattern.width)
    fitting = {name for name, index in indexed for extent, values in lengths.items()
               if apart in values and re.search(rf"\b{re.escape(signature.named(extent))}\b", index)}  # fmt: skip
    if len(fitting) > 1:
        lanes = {name for name, value in _SET.findall(code) if "threadIdx.x" in value and "threadIdx.y" not in value}
        fitting = {name for name, index in indexed if name in fitting and lanes & set(re.findall(r"\w+", index))}
    return str(fitting.pop()) if len(fitting) == 1 else ""
