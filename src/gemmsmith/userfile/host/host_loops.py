"""Loops of host code around a launch that works on another part of its matrices in every round; launches after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.userfile.host.function_bodies import body_tree
from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.host.host_guards import leaves
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.parts import LaunchText
from gemmsmith.userfile.text.syntax import descend

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
_EVERYWHERE: frozenset[str] = frozenset()
_MOVED = re.compile(r"\w\s*\+|&.*\[")  # a matrix from some element on
_NAME = re.compile(r"[A-Za-z_]\w*")
_POINTER_CAST = re.compile(
    r"^\(\s*(?:const\s+)?[\w:\s]+\*+\s*\)\s*|^(?:reinterpret|static|const)_cast\s*<[^<>]*\*\s*>\s*\("
)
_DIRECT = {"assignment_expression": "left", "update_expression": "argument"}


def loop_around(site: LaunchSite) -> str:
    """Where host code launches the kernel on one part of its matrices after another, as "gemm.cu:28, where k changes";
    empty if every launch has the same ones, as in a loop that measures time."""
    function = site.frame.function
    if function is None:
        return ""
    code, body, shift = body_tree(function)
    place = site.frame.start + shift
    moved = tuple(text for text in site.arguments if _MOVED.search(text))
    for loop in descend(body, _EVERYWHERE):
        if loop.type not in _LOOPS or not loop.start_byte <= place < loop.end_byte:
            continue
        changed = _changed(code, loop)
        walking = tuple(text for text in site.arguments if text in changed and _is_pointer(text, site))
        for name in sorted(changed & _reaching(code, loop, moved + walking)):
            return f"{site.file.name}:{function.body_line + loop.start_point[0]}, where {name} changes"
    return ""


def loops_around(frame: Frame) -> list[int]:
    """Where the loops around a place begin, in its function's body."""
    return [loop.start_byte for _, loop in _around(frame)]


def changed_around(frame: Frame) -> set[str]:
    """Variables that the loops around a place change from round to round."""
    return {name for code, loop in _around(frame) for name in _changed(code, loop)}


def counters_at(frame: Frame) -> frozenset[str]:
    """Variables at a place that loops around it change, or around the call that passes them."""
    passed: set[str] = set()
    if frame.function is not None:
        names = [parameter.name for parameter in frame.function.parameters]
        calls = _calls_in_loops(frame)
        if frame.caller is not None:
            calls = [(frame.arguments, counters_at(frame.caller))]
        passed = {name for texts, counters in calls for name, text in zip(names, texts, strict=False)
                  if text.strip() in counters}  # fmt: skip
    return frozenset(changed_around(frame) | passed)


def _calls_in_loops(frame: Frame) -> list[tuple[tuple[str, ...], frozenset[str]]]:
    """The arguments of calls of a place's function in its own file, each with the variables that a loop around the
    call changes."""
    found = []
    called = frame.function.name if frame.function is not None else ""
    for other in frame.source.functions:
        if not called or not re.search(rf"\b{re.escape(called)}\s*[(<]", other.body):
            continue
        code, body, _ = body_tree(other)
        for loop in (node for node in descend(body, _EVERYWHERE) if node.type in _LOOPS):
            for call in (node for node in descend(loop, _EVERYWHERE) if node.type == "call_expression"):
                function, given = call.child_by_field_name("function"), call.child_by_field_name("arguments")
                if given is not None and function is not None and text_of(code, function).split("<")[0] == called:
                    texts = tuple(text_of(code, each) for each in given.named_children)
                    found.append((texts, frozenset(_changed(code, loop))))
    return found


def _around(frame: Frame) -> Iterator[tuple[str, Node]]:
    if frame.function is not None:
        code, body, shift = body_tree(frame.function)
        place = frame.start + shift
        for node in descend(body, _EVERYWHERE):
            if node.type in _LOOPS and node.start_byte <= place < node.end_byte:
                yield code, node


def reader_after(site: LaunchSite, array: str) -> str:
    """A later launch of another kernel that host code passes the same array to, as "finish at gemm.cu:40"; or empty."""
    frame = site.frame
    for launch in frame.source.launches:
        same = frame.source.functions[launch.function] == frame.function
        if (
            same
            and launch.start > frame.start
            and launch.kernel != site.kernel.name
            and array in map(plain_array, launch.arguments)
        ):
            return f"{launch.kernel} at {site.file.name}:{launch.line}"
    return ""


def launches_beside(site: LaunchSite) -> list[LaunchText]:
    """The launches that the function of one makes beside it, and that one: not those in another branch."""
    frame = site.frame
    if frame.function is None:
        return []
    code, body, shift = body_tree(frame.function)
    own = [each for each in frame.source.launches if frame.source.functions[each.function] == frame.function]
    return [each for each in own if not _either(code, body, each.start + shift, frame.start + shift)]


def _either(code: str, body: Node, one: int, other: int) -> bool:
    """Whether one call runs at most one of two places: they are in branches of one if, or the first one's leaves."""
    first, second = sorted((one, other))
    for node in descend(body, _EVERYWHERE):
        if node.type == "if_statement" and node.start_byte <= first < node.end_byte:
            then, otherwise = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
            at = [each for each in (then, otherwise) if each is not None and each.start_byte <= first < each.end_byte]
            is_inside = second < node.end_byte
            if at and not at[0].start_byte <= second < at[0].end_byte and (is_inside or leaves(code, at[0])):
                return True
    return False


def plain_array(text: str) -> str:
    """The array that is passed, without casts."""
    text = text.strip()
    while (match := _POINTER_CAST.match(text)) is not None:
        text = text[match.end() :].strip()
        text = text[:-1].strip() if match[0].endswith("(") else text
    return text


def _is_pointer(name: str, site: LaunchSite) -> bool:
    variable, function = site.frame.locals.variables.get(name), site.frame.function
    given = function.parameters if function is not None else ()
    return (variable is not None and "*" in variable.type) or any(p.name == name and "*" in p.type for p in given)


def _changed(code: str, loop: Node) -> set[str]:
    """Variables that a round leaves changed for the next one."""
    found: set[str] = set()
    for node in descend(loop, _EVERYWHERE):
        target = node.child_by_field_name(_DIRECT[node.type]) if node.type in _DIRECT else None
        if target is not None and target.type == "identifier":
            found.add(text_of(code, target))
    return found


def _reaching(code: str, loop: Node, arguments: tuple[str, ...]) -> set[str]:
    """Names in the arguments, and in the values of the loop's own variables that they name."""
    found = {name for text in arguments for name in _NAME.findall(text)}
    for node in descend(loop, _EVERYWHERE):
        if node.type == "init_declarator":
            name = node.child_by_field_name("declarator")
            if name is not None and text_of(code, name) in found:
                found |= set(_NAME.findall(text_of(code, node)))
    return found
