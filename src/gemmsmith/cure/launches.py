"""The launch: a grid for whole tiles only, rows and columns swapped, too few bytes of shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.code import Code, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit

if TYPE_CHECKING:
    from tree_sitter import Node

# `dim3 grid(gx, gy)` is the declaration of a function to a parser that does not know the types of gx and gy.
_DIVIDING_MACRO = re.compile(r"#\s*define\s+(?P<name>\w+)\s*\(\s*\w+\s*,\s*\w+\s*\)\s*\(?\s*(?P<over>\(\s*\w+\s*\)|\w+)"
                             r"\s*/\s*(?P<by>\(\s*\w+\s*\)|\w+)\s*\)?\s*$", re.M)  # fmt: skip
_TIMES = (2, 3, 4, 8)
_HOLDERS = ("init_declarator", "function_declarator", "kernel_call_syntax", "call_expression", "assignment_expression")


def floor_grids(program: Program) -> Iterator[Candidate]:
    """`N / 32` blocks become `(N + 32 - 1) / 32`: all divisions of the grid, then each."""
    found: list[Candidate] = []
    for code, arguments in grid_arguments(program):
        for argument in (each for one in arguments for each in (one, *_defined(code, one))):
            found += _floors(code, argument, "the grid in line {line} is rounded down")
        called = {name for one in arguments for name in re.findall(r"\b(\w+)\s*\(", code.of(one))}
        found += _helpers(program, called)
    if len(found) > 1:
        both = found[0] + found[1]
        yield Candidate("floor-grid", found[0].cause, both.change, both.edits)
    yield from found


def _floors(code: Code, node: Node, cause: str) -> Iterator[Candidate]:
    """Each division below ``node``, rounded up."""
    for each in below(node, "binary_expression"):
        operator, left, right = (each.child_by_field_name(part) for part in ("operator", "left", "right"))
        if operator is None or left is None or right is None or code.of(operator) != "/":
            continue
        over, by, line = code.of(left), code.of(right), code.line(each.start_byte)
        if re.search(r"-\s*1\s*\)?$|\+", over):
            continue
        new = f"({over} + {by} - 1) / {by}"
        yield Candidate("floor-grid", f"{cause.format(line=line)}: `{code.of(each)}` has no block for the last, "
                        "partial tile", f"write `{new}` in line {line}",
                        (Edit(code.path, each.start_byte, each.end_byte, new),))  # fmt: skip


def _helpers(program: Program, called: set[str]) -> Iterator[Candidate]:
    """Divisions in functions and macros that the grid calls: `int blocks_for(int n, int t) { return n / t; }`."""
    for function in program.functions:
        if function.name in called and "__global__" not in function.head:
            what = f"`{function.name}` in line {{line}} rounds the number of blocks down"
            yield from _floors(function.code, function.body, what)
    for code in program.files:
        for match in _DIVIDING_MACRO.finditer(code.text):
            if match["name"] in called:
                over, by, line = match["over"].strip(), match["by"].strip(), code.line(match.start("over"))
                new = f"({over} + {by} - 1)"
                yield Candidate("floor-grid", f"`{match['name']}` in line {line} rounds the number of blocks down: "
                                "there is no block for the last, partial tile",
                                f"write `{new} / {by}` in line {line}",
                                (Edit(code.path, match.start("over"), match.end("over"), new),))  # fmt: skip


def swapped_axes(program: Program) -> Iterator[Candidate]:
    """x and y of the grid swapped, in the launch or everywhere in the kernel."""
    for code, arguments in grid_arguments(program):
        if len(arguments) >= 2:
            one, two = arguments[:2]
            line = code.line(one.start_byte)
            edits = (Edit(code.path, one.start_byte, one.end_byte, code.of(two)),
                     Edit(code.path, two.start_byte, two.end_byte, code.of(one)))  # fmt: skip
            if code.of(one) != code.of(two):
                cause = f"the grid in line {line} has x and y swapped for this kernel"
                yield Candidate("swapped-grid", cause, f"write `{code.of(two)}, {code.of(one)}` in line {line}", edits)
        yield from _exchanged_extents(program, code, arguments)
    for what in ("blockIdx", "threadIdx"):
        yield from _swapped_in_kernel(program, what)


def _exchanged_extents(program: Program, code: Code, arguments: list[Node]) -> Iterator[Candidate]:
    """`(M + 31) / 32, (N + 7) / 8` becomes `(N + 31) / 32, (M + 7) / 8`: each side keeps its tile. The launch may have
    other names for M and N than the kernel."""
    parts = [each for one in arguments[:2] for each in (one, *_defined(code, one))]
    passed = _passed(program, code)
    names = [passed.get(role, program.names.get(role, "")) for role in ("M", "N")]
    nodes = {node.start_byte: node for part in parts for node in below(part, "identifier", "type_identifier")
             if code.of(node) in names}  # fmt: skip
    if len({code.of(node) for node in nodes.values()}) < 2:
        return
    swap, line = dict(zip(names, names[::-1], strict=True)), code.line(arguments[0].start_byte)
    edits = tuple(Edit(code.path, at, node.end_byte, swap[code.of(node)]) for at, node in nodes.items())
    yield Candidate("swapped-grid", f"the grid in line {line} has blocks for {names[0]} along one axis and for "
                    f"{names[1]} along the other, and the kernel has them the other way round",
                    f"write {names[1]} for {names[0]} there, and {names[0]} for {names[1]}", edits)  # fmt: skip


def _passed(program: Program, code: Code) -> dict[str, str]:
    """What the launch passes for M and N, by role, where these are variables."""
    kernel = program.kernel
    if kernel is None:
        return {}
    taken = re.findall(r"(\w+)\s*(?=,|\)\s*$)", kernel.head.strip()[kernel.head.find("(") + 1 :])
    places = {role: taken.index(program.names[role]) for role in ("M", "N") if program.names.get(role) in taken}
    for call in below(code.root, "kernel_call_syntax"):
        started = call.parent
        listed = started.child_by_field_name("arguments") if started is not None else None
        if started is not None and listed is not None and re.match(rf"{re.escape(program.entry)}\b", code.of(started)):
            given = [code.of(each) for each in listed.named_children]
            return {role: given[at] for role, at in places.items() if at < len(given) and given[at].isidentifier()}
    return {}


def swapped_configurations(program: Program) -> Iterator[Candidate]:
    """`<<<block, grid>>>` becomes `<<<grid, block>>>`, where sizes are divided for the second and not for the first."""
    for (code, grid), (_, block) in zip(configured(program, 0), configured(program, 1), strict=False):
        line, (one, two) = code.line(grid.start_byte), (code.of(grid), code.of(block))
        divided = [
            any(re.search(r"[/(]", code.of(part)) for part in block_extents(code, each)) for each in (grid, block)
        ]
        if divided == [False, True]:
            yield Candidate("swapped-launch", f"the launch in line {line} has grid and block swapped",
                            f"write `<<<{two}, {one}` in line {line}",
                            (Edit(code.path, grid.start_byte, grid.end_byte, two),
                             Edit(code.path, block.start_byte, block.end_byte, one)))  # fmt: skip


def block_extents(code: Code, asked: Node) -> list[Node]:
    """The threads along x, y and z as written: in the launch, or where its variable is declared."""
    if asked.type == "call_expression" and code.of(asked).startswith("dim3"):
        return _listed(asked)
    if asked.type != "identifier":
        return [asked]
    holder = next((each for each in above(asked) if each.type == "function_definition"), None)
    for node in below(holder, *_HOLDERS) if holder is not None else ():
        declared = node.child_by_field_name("declarator") or node.child_by_field_name("left")
        if declared is not None and code.of(declared) == code.of(asked):
            found = _arguments(code, node)
            return found or list(_defined(code, asked))
    return []


def configured(program: Program, place: int) -> Iterator[tuple[Code, Node]]:
    """What the launches of the kernel have at a place of `<<<grid, block, bytes>>>`."""
    for code in program.files:
        for call in below(code.root, "kernel_call_syntax"):
            started = call.parent
            if started is None or len(call.named_children) <= place:
                continue
            if re.match(rf"{re.escape(program.entry)}\b", code.of(started)):
                yield code, call.named_children[place]


def more_shared_memory(program: Program) -> Iterator[Candidate]:
    """Two to eight times the bytes of dynamic shared memory that the launch asks for."""
    for code, asked in configured(program, 2):
        for node in (*_defined(code, asked), asked):
            if node.type == "identifier":
                continue
            line, old = code.line(node.start_byte), code.of(node)
            for times in _TIMES:
                new = f"{times} * {old}" if _is_factor(code, node) else f"{times} * ({old})"
                yield Candidate("few-shared-bytes", f"the kernel uses more shared memory than the launch asks for: "
                                f"`{' '.join(old.split())}` in line {line}", f"ask for {times} times as many bytes: "
                                f"`{' '.join(new.split())}`, or add up the arrays that share them",
                                (Edit(code.path, node.start_byte, node.end_byte, new),))  # fmt: skip


def _is_factor(code: Code, node: Node) -> bool:
    """Whether an expression can be multiplied without parentheses."""
    sign = node.child_by_field_name("operator") if node.type == "binary_expression" else None
    return node.type == "number_literal" or (sign is not None and code.of(sign) == "*")


def swapped_grid(program: Program) -> tuple[Edit, ...]:
    """x and y of the grid swapped where it is written; empty where it is not found, or has one extent only."""
    for code, arguments in grid_arguments(program):
        if len(arguments) >= 2:
            one, two = arguments[:2]
            return (Edit(code.path, one.start_byte, one.end_byte, code.of(two)),
                    Edit(code.path, two.start_byte, two.end_byte, code.of(one)))  # fmt: skip
    return ()


def _swapped_in_kernel(program: Program, what: str) -> Iterator[Candidate]:
    for function in program.reached[:1]:
        code, edits, lines = function.code, [], []
        for node in below(function.body, "field_expression"):
            match = re.fullmatch(rf"{what}\.([xy])", code.of(node))
            if match:
                edits.append(Edit(code.path, node.end_byte - 1, node.end_byte, "y" if match[1] == "x" else "x"))
                lines.append(code.line(node.start_byte))
        if len(edits) > 1:
            where = ", ".join(map(str, dict.fromkeys(lines)))
            yield Candidate("swapped-axes", f"{what}.x and {what}.y are swapped in line{'s' * (len(set(lines)) > 1)} "
                            f"{where}", f"swap {what}.x and {what}.y there", tuple(edits))  # fmt: skip


def grid_arguments(program: Program) -> Iterator[tuple[Code, list[Node]]]:
    """The x, y and z of the grid as written, where the launch was found."""
    if program.grid is None:
        return
    path, line = program.grid
    for code in program.files:
        if code.path != path:
            continue
        at_line = [node for node in below(code.root, *_HOLDERS)
                   if code.line(node.start_byte) <= line <= code.last_line(node)]  # fmt: skip
        # `dim3 block(32, 8), grid(N / 32, M / 8);` declares two.
        for node in sorted(at_line, key=lambda node: not _is_first_argument(code, node)):
            arguments = _members(code, node) or _arguments(code, node)
            if arguments:
                yield code, arguments
                return


def _is_first_argument(code: Code, node: Node) -> bool:
    """Whether a launch `<<<grid, …>>>` has the declared variable as its grid."""
    declared = node.child_by_field_name("declarator")
    grids = [each.named_children[0] for each in below(code.root, "kernel_call_syntax") if each.named_children]
    return declared is not None and code.of(declared) in map(code.of, grids)


def _defined(code: Code, argument: Node) -> Iterator[Node]:
    """What the variables in an extent of the grid were set to, in the same function: `int gx = N / 32;`."""
    holder = next((each for each in above(argument) if each.type == "function_definition"), None)
    names = {code.of(each) for each in below(argument, "identifier", "type_identifier")}
    for node in below(holder, "init_declarator", "assignment_expression") if holder is not None else ():
        target = node.child_by_field_name("declarator") or node.child_by_field_name("left")
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if target is not None and value is not None and code.of(target) in names:
            yield value


def _members(code: Code, node: Node) -> list[Node]:
    """What `grid.x = …; grid.y = …;` assign, in the same function."""
    target = node.child_by_field_name("left") if node.type == "assignment_expression" else None
    match = re.fullmatch(r"(\w+)\.[xyz]", code.of(target)) if target is not None else None
    holder = next((each for each in above(node) if each.type == "function_definition"), None)
    if match is None or holder is None:
        return []
    found = {}
    for each in below(holder, "assignment_expression"):
        left, right = each.child_by_field_name("left"), each.child_by_field_name("right")
        if left is not None and right is not None and re.fullmatch(rf"{match[1]}\.[xyz]", code.of(left)):
            found[code.of(left)] = right
    return [found[name] for name in sorted(found)]


def _arguments(code: Code, node: Node) -> list[Node]:
    if node.type == "kernel_call_syntax" and node.named_children:
        grid = node.named_children[0]
        if grid.type == "call_expression" and code.of(grid).startswith("dim3"):
            return _listed(grid)
        return [grid] if "/" in code.of(grid) else []
    if node.type == "init_declarator":
        declared = node.parent
        kind = declared.child_by_field_name("type") if declared is not None else None
        value = node.child_by_field_name("value")
        if value is not None and value.type == "call_expression" and code.of(value).startswith("dim3"):
            return _listed(value)
        if value is not None and kind is not None and code.of(kind) == "dim3":
            return list(value.named_children)
        return [value] if value is not None and "/" in code.of(value) else []
    if node.type == "function_declarator":
        declared, listed = node.parent, node.child_by_field_name("parameters")
        kind = declared.child_by_field_name("type") if declared is not None else None
        is_grid = listed is not None and kind is not None and code.of(kind) == "dim3"
        return list(listed.named_children) if is_grid and listed is not None else []
    if node.type == "call_expression" and re.match(r"(?:const\s+)?dim3\b", code.of(node)):
        return _listed(node)
    if node.type == "assignment_expression":
        right = node.child_by_field_name("right")
        if right is not None and code.of(right).startswith("dim3") and right.type == "call_expression":
            return _listed(right)
        return [right] if right is not None and "/" in code.of(right) else []
    return []


def _listed(call: Node) -> list[Node]:
    arguments = call.child_by_field_name("arguments")
    return list(arguments.named_children) if arguments is not None else []
