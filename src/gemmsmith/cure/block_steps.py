"""How far apart blocks lie: what the kernel multiplies the block's number by, and what the launch divides by, must be
the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Function, Program, below, binary_expressions
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.launches import grid_arguments
from gemmsmith.cure.wording import changed, flat

if TYPE_CHECKING:
    from tree_sitter import Node

_AXES = "xyz"
_PARTS = 3  # blockIdx, blockDim and threadIdx
_DIVIDED = re.compile(
    r"(?:.*[^\w)]|)(?P<over>[\w.]+)\s*(?:\+[^/]*)?\)?\s*/\s*(?P<by>\(.*\)|[\w.]+)\s*\)?(?:\s*\+\s*1)?$"
)
_CALLED = re.compile(r"\w*(?:div|DIV|ceil|CEIL|cdiv)\w*\s*\(\s*[\w.]+\s*,\s*(?P<by>.*)\)$", re.S)
_WARP = re.compile(r"\b(?:32|warpSize|WARP_SIZE|WARPSIZE)\b")


def thread_numbers(program: Program) -> Iterator[Candidate]:
    """`blockIdx.x + blockDim.x * threadIdx.x` and `blockIdx.x + threadIdx.x` become the number of a thread in the
    grid."""
    for function in program.reached:
        code = function.code
        for node, _sign, _left, _right in binary_expressions(code, function.body, ("+",)):
            text = flat(code.of(node))
            found = [name.partition(".") for name in re.findall(r"[A-Za-z_]\w*(?:\.\w+)?", text)]
            kinds, axes = [name for name, _, _ in found], {axis for _, _, axis in found}
            if sorted(set(kinds) - {"blockDim"}) != ["blockIdx", "threadIdx"] or len(axes) != 1 or len(kinds) > _PARTS:
                continue
            axis = next(iter(axes))
            new, line = f"blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis}", code.line(node.start_byte)
            is_plain = re.fullmatch(r"[\w.*+ ]+", text) is not None and not re.search(r"(?<![\w.])\d", text)
            if is_plain and set(text.split(" + ")) != set(_usual(axis)):
                yield Candidate("wrong-thread-number", f"line {line} gives several threads the same number: `{text}`",
                                f"write `{new}` in line {line}",
                                (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def _usual(axis: str) -> tuple[str, str]:
    return f"blockIdx.{axis} * blockDim.{axis}", f"threadIdx.{axis}"


def launched_steps(program: Program) -> Iterator[Candidate]:
    """`blockIdx.x * TILE` becomes `blockIdx.x * (TILE * 4)` where the launch has `N / (TILE * 4)` blocks; and the
    launch divides by what the kernel multiplies by."""
    kernel = program.kernel
    if kernel is None:
        return
    for code, arguments in grid_arguments(program):
        if _are_swapped(code, kernel, arguments):
            continue
        for axis, argument in zip(_AXES, arguments, strict=False):
            by = _divisor(code, argument)
            if by is None:
                continue
            wanted = _bare(by)
            steps = [step for step in _steps(kernel, axis) if not _may_be_equal(program, kernel.code.of(step), wanted)]
            for step in steps:
                yield from _in_kernel(program, kernel, step, by, axis)


def _are_swapped(code: Code, kernel: Function, arguments: list[Node]) -> bool:
    """Whether x of the grid has the step of the kernel's y, and y that of its x."""
    divisors = [_bare(_divisor(code, argument) or "") for argument in arguments[:2]]
    steps = [{_bare(kernel.code.of(step)) for step in _steps(kernel, axis)} for axis in "yx"]
    return len(set(divisors)) == len(steps) and all(by in of for by, of in zip(divisors, steps, strict=True))


def _in_kernel(program: Program, kernel: Function, step: Node, by: str, axis: str) -> Iterator[Candidate]:
    """The launch's divisor in place of the kernel's factor, if the kernel knows its names."""
    code, line, old = kernel.code, kernel.code.line(step.start_byte), flat(kernel.code.of(step))
    known = kernel.code.of(kernel.body) + kernel.head + "".join(_constants(each) for each in program.files)
    if not all(re.search(rf"\b{name}\b", known) for name in re.findall(r"[A-Za-z_]\w*", by)):
        return
    new = f"({_bare(by)})" if re.search(r"\W", _bare(by)) else _bare(by)
    yield Candidate("wrong-block-step", f"the launch has a block for every {_bare(by)} along {axis}, and line {line} "
                    f"advances by {old} per block", f"write `{new}` for `{old}` in line {line}: "
                    f"`{changed(code, step, new)}`",
                    (Edit(code.path, step.start_byte, step.end_byte, new),))  # fmt: skip


def warp_grids(program: Program) -> Iterator[Candidate]:
    """`M / threads.x` blocks become `M / (TILE * threads.x / 32)`, where warps and not threads are counted."""
    kernel = program.kernel
    if kernel is None:
        return
    tiles = _warp_tiles(kernel)
    for code, arguments in grid_arguments(program):
        for axis, argument in zip(_AXES, arguments, strict=False):
            by = _divisor(code, argument)
            for tile in tiles.get(axis, ()) if by is not None else ():
                new, line = f"({tile} * {_bare(by or '')} / 32)", code.line(argument.start_byte)
                text = re.sub(rf"(?<![\w.]){re.escape(by or '')}(?![\w.])", new, code.of(argument))
                yield Candidate("threads-for-warps", f"the grid in line {line} has a block for every {_bare(by or '')} "
                                f"along {axis}, which counts threads; but a warp of 32 threads computes {tile}",
                                f"write `{flat(text)}` in line {line}",
                                (Edit(code.path, argument.start_byte, argument.end_byte, text),))  # fmt: skip


def _warp_tiles(kernel: Function) -> dict[str, list[str]]:
    """What the number of a warp along an axis is multiplied by: {"x": ["WMMA_M"]}."""
    code, found = kernel.code, {}
    for node in below(kernel.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        text = code.of(value) if value is not None else ""
        axis = re.search(r"threadIdx\.([xyz])", text)
        if (
            named is None
            or axis is None
            or "blockIdx" not in text
            or not re.search(r"/", text)
            or not _WARP.search(text)
        ):
            continue
        pattern = rf"\b{re.escape(code.of(named))}\s*\*\s*(\w+)|(\w+)\s*\*\s*{re.escape(code.of(named))}\b"
        factors = [one or two for one, two in re.findall(pattern, code.of(kernel.body))]
        found[axis[1]] = list(dict.fromkeys(factors))
    return found


def _steps(function: Function, axis: str) -> Iterator[Node]:
    """What the block's number along an axis is multiplied by."""
    code, names = function.code, {f"blockIdx.{axis}"}
    for node in below(function.body, "init_declarator"):
        named, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if named is not None and value is not None and code.of(value) == f"blockIdx.{axis}":
            names.add(code.of(named))
    for _node, _sign, left, right in binary_expressions(code, function.body, ("*",)):
        if code.of(left) in names:
            yield right
        elif code.of(right) in names:
            yield left


def _divisor(code: Code, argument: Node) -> str | None:
    """What an extent of the grid is divided by."""
    text = flat(code.of(argument), 300)
    match = _CALLED.fullmatch(text) or _DIVIDED.fullmatch(text)
    return match["by"].strip() if match else None


def _may_be_equal(program: Program, step: str, by: str) -> bool:
    """Whether a factor may have the value of the launch's divisor: a name beside a number, unless the name is a
    constant of another value."""
    if _bare(step) == by:
        return True
    if not by.isdecimal() or _bare(step).isdecimal():
        return False
    texts = "\n".join(code.text for code in program.files)
    value = re.search(rf"\b{re.escape(_bare(step))}\s*(?:=\s*)?(\d+)\b", texts)
    return value is None or value[1] == by


def _bare(text: str) -> str:
    text = flat(text, 300).strip()
    return _bare(text[1:-1]) if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text


def _constants(code: Code) -> str:
    """The names of a file's macros and constants."""
    found = re.findall(r"#\s*define\s+(\w+)|\b(?:const|constexpr)\s+\w+\s+(\w+)", code.text)
    return " ".join(macro or constant for macro, constant in found)
