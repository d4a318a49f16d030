"""Put an entry and the functions it may call into one list of instructions.

Functions come first, so that lanes inside a call run before those that wait for them further on. Each function's first
instruction has a label, ``function_label``; the entry's first instruction has ``START``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gemmsmith.sim.ptx.syntax import Address, Entry, Function, Instruction, Operand, Symbol, Vector

START = "start:"


def function_label(name: str) -> str:
    """The label of a function's first instruction."""
    return f"function:{name}"


def link(entry: Entry) -> Entry:
    """The entry with the functions that it may call, and no others; unchanged if there are none."""
    functions = _reachable(entry)
    if not functions:
        return replace(entry, functions=())
    instructions: list[Instruction] = []
    labels: list[tuple[str, int]] = []
    for function in functions:
        labels.append((function_label(function.name), len(instructions)))
        labels += [(name, at + len(instructions)) for name, at in function.labels]
        instructions += function.instructions
    labels.append((START, len(instructions)))
    labels += [(name, at + len(instructions)) for name, at in entry.labels]
    return replace(
        entry,
        variables=(*entry.variables, *(v for f in functions for v in f.variables if v.space not in ("local", "call"))),
        registers=(*entry.registers, *(r for f in functions for r in f.registers)),
        instructions=(*instructions, *entry.instructions),
        labels=tuple(labels),
        tables=(*entry.tables, *(t for f in functions for t in f.tables)),
        functions=functions,
    )


def _reachable(entry: Entry) -> tuple[Function, ...]:
    """Functions that the entry, or one of them, names; and those whose address is in a variable."""
    known = {function.name: function for function in entry.functions}
    if not known:
        return ()
    wanted = {r.symbol for v in entry.variables for r in v.relocations} & set(known)
    waiting = [*wanted, *(name for name in _named(entry.instructions) if name in known)]
    found: dict[str, Function] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = known[name]
            waiting += [other for other in _named(known[name].instructions) if other in known]
    return tuple(function for name, function in known.items() if name in found)


def _named(instructions: Iterable[Instruction]) -> Iterator[str]:
    return (name for instruction in instructions for name in _symbols(instruction.operands))


def _symbols(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, Symbol):
            yield operand.name
        elif isinstance(operand, Vector):
            yield from _symbols(operand.items)
        elif isinstance(operand, Address) and isinstance(operand.base, Symbol):
            yield operand.base.name


def recursive_functions(functions: Iterable[Function]) -> frozenset[str]:
    """Functions that may be called again before they return; with calls through pointers, all of them."""
    known = {function.name: function for function in functions}
    calls = {name: {n for n in _named(f.instructions) if n in known} for name, f in known.items()}
    if any(_is_indirect(i, known) for f in known.values() for i in f.instructions):
        return frozenset(known)
    for _ in known:  # the transitive closure
        for called in calls.values():
            called |= {further for name in tuple(called) for further in calls[name]}
    return frozenset(name for name, called in calls.items() if name in called)


def _is_indirect(i: Instruction, known: dict[str, Function]) -> bool:
    return i.opcode == "call" and not any(isinstance(o, Symbol) and o.name in known for o in i.operands[:2])
