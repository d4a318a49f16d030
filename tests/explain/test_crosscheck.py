"""The cross-check of simulated memory instructions against the machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from explained import LADDER, compiled, profiled, sass

from gemmsmith.compile.sass import Instruction, Sass
from gemmsmith.explain.crosscheck import Check, cross_check
from gemmsmith.explain.sampling import Bench
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.sim.counters import Counters


def counted(name: str) -> Counters:
    spec = rung_named(name)
    return Bench(spec, spec.config(), Problem(64, 64, 32), compiled(name)).count()


def states(checks: tuple[Check, ...]) -> dict[str, str]:
    return {check.name: check.state for check in checks if check.state != "equal"}


@pytest.mark.parametrize("name", [n for n in LADDER if n not in ("naive", "coalesced", "async_copy")])
def test_rungs_with_equal_static_counts(name: str) -> None:
    assert states(profiled(name, 128, 128, 128).checks) == {}


@pytest.mark.parametrize("name", ["naive", "coalesced"])
def test_an_unrolled_loop_is_recognised_by_its_arithmetic(name: str) -> None:
    checks = {check.name: check for check in profiled(name, 128, 128, 128).checks}
    assert states(tuple(checks.values())) == {"LDG.32": "unrolled"}
    assert checks["LDG.32"].machine > checks["LDG.32"].simulated
    assert len(checks["LDG.32"].lines) == 2  # A's line and B's


def test_loads_with_a_false_predicate_are_listed_and_not_counted() -> None:
    """ptxas places `@!PT LDS RZ, [RZ]` before LDGSTS."""
    (idle,) = [check for check in profiled("async_copy", 128, 128, 128).checks if check.state != "equal"]
    assert (idle.opcode, idle.state, idle.simulated) == ("LDS", "idle", 0)
    assert all(i.text.startswith("@!PT LDS RZ") for i in sass("async_copy").instructions if i.predicate == "@!PT")


def altered(name: str, change: Callable[[Instruction], list[Instruction]]) -> tuple[Check, ...]:
    listing = sass(name)
    return cross_check(counted(name), Sass(listing.entry, tuple(n for i in listing.instructions for n in change(i)),
                                           listing.labels))  # fmt: skip


def twice(base: str) -> Callable[[Instruction], list[Instruction]]:
    return lambda i: [i, i] if i.base == base else [i]


def test_a_duplicated_load_is_not_an_unrolled_loop() -> None:
    checks = altered("shared_tile", twice("LDG"))
    assert states(checks) == {"LDG.32": "different"}
    assert "too few" in next(c.meaning for c in checks if c.state == "different")


def test_replicating_everything_is_unrolling() -> None:
    assert set(states(altered("shared_tile", lambda i: [i, i])).values()) == {"unrolled"}


def test_a_dropped_load_is_reported_with_its_line() -> None:
    left = iter(range(1000))
    checks = altered("shared_tile", lambda i: [] if i.opcode == "LDS" and next(left) == 3 else [i])
    (odd,) = [check for check in checks if check.state != "equal"]
    assert (odd.name, odd.simulated - odd.machine, odd.state) == ("LDS.32", 1, "different")
    assert "too many" in odd.meaning
    assert odd.lines


def test_another_width_for_the_same_bytes() -> None:
    pair = iter([True, False] * 1000)

    def fused(i: Instruction) -> list[Instruction]:
        if i.opcode != "LDS":
            return [i]
        return [replace(i, opcode="LDS.64")] if next(pair) else []

    checks = altered("shared_tile", fused)
    assert states(checks) == {"LDS.32": "different", "LDS.64": "different"}
    assert all("another width" in check.meaning for check in checks if check.state == "different")


def test_spills_are_traffic_that_the_simulator_does_not_see() -> None:
    done = iter([True])

    def spill(i: Instruction) -> list[Instruction]:
        return [i, replace(i, opcode="STL")] if next(done, False) else [i]

    (odd,) = [check for check in altered("shared_tile", spill) if check.state != "equal"]
    assert (odd.name, odd.state) == ("STL.32", "different")
    assert "spills" in odd.meaning
