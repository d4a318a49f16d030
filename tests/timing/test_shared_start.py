"""Short cuts of the cycle model give what it gives without them, on random loops."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.shared_start import _stops, run_both
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Kind, Row, Unit
from gemmsmith.sim.timing.watched import WatchedSm

MODEL = SmParameters()
_WARPS, _BLOCKS = 6, 2


def row(position: int, kind: Kind = Kind.PLAIN, unit: Unit = Unit.NONE, **given: object) -> Row:
    plain = Row(position, kind, unit, 1, 1, -1, -1, (), 0, 0, 0, 0, 0.0, 0, 0, 0, False, position + 1, 0, "TEST")
    return plain._replace(**given)  # type: ignore[arg-type]


def rows_of_loop(seed: int) -> list[Row]:
    """A loop that loads, meets at a barrier and computes, and an instruction behind it that ends the warp."""
    chance = random.Random(seed)
    found = [
        row(0, Kind.GLOBAL_LOAD, Unit.MIO, busy=2, write=1, result_bytes=16, operand_bytes=8),
        row(1, Kind.SHARED_STORE, Unit.MIO, busy=2, read=2, wait=(1,), operand_bytes=20),
        row(2, Kind.BARRIER),
        row(3, Kind.SHARED_LOAD, Unit.MIO, busy=2, write=0, result_bytes=16, operand_bytes=4),
    ]
    for position in range(4, 40):
        unit = chance.choice((Unit.FMA, Unit.FMA, Unit.FMA, Unit.ALU, Unit.FMA_HEAVY, Unit.TENSOR, Unit.NONE))
        even, odd = chance.choice(((0, 0), (1, 1), (2, 1), (3, 0)))
        busy = 6.5 if unit is Unit.TENSOR else 2.0
        found.append(row(position, unit=unit, busy=busy, stall=chance.choice((1, 1, 1, 2, 4)), even=even, odd=odd,
                         even_alone=even + 1, odd_alone=odd, wait=(0,) if position == 6 else ()))  # fmt: skip
    return [*found, row(40, jumps=True, following=41, stall=2), row(41, Kind.EXIT)]


def streams(rounds: int, seed: int) -> list[Stream]:
    chance = random.Random(seed)
    made = []
    for number in range(_WARPS * _BLOCKS):
        block, warp = divmod(number, _WARPS)
        payloads: list[object] = []
        for _ in range(rounds):
            lines = tuple((chance.randrange(64), 15) for _ in range(chance.choice((1, 4))))
            payloads += [lines, chance.choice((1, 4)), None, chance.choice((1, 2, 4)), *[None] * 37]
        made.append(Stream(block, warp, (*tuple(range(41)) * rounds, 41), (*payloads, None)))
    return made


def shortened(longer: list[Stream], rounds: int) -> list[Stream]:
    kept = 41 * rounds
    return [Stream(s.block, s.warp, (*s.positions[:kept], 41), (*s.payloads[:kept], None)) for s in longer]


@pytest.mark.parametrize("seed", range(8))
def test_what_two_runs_have_in_common_runs_once(seed: int) -> None:
    rows, longer = rows_of_loop(seed), streams(9, seed)
    shorter = shortened(longer, 5)
    alone = [Sm(rows, each, MODEL, Memory(cold=True)).run() for each in (shorter, longer)]
    low, high = (Sm(rows, each, MODEL, Memory(cold=True)) for each in (shorter, longer))
    assert min(_stops(low, high)) == 41 * 5 - 1
    assert list(run_both(low, high)) == alone
    assert high.live == 0
    assert low.out.cycles < high.out.cycles


@pytest.mark.parametrize("seed", range(4))
def test_without_stalls_all_else_is_the_same(seed: int) -> None:
    rows, longer = rows_of_loop(seed), streams(9, seed)
    shorter = shortened(longer, 5)
    alone = [Sm(rows, each, MODEL, Memory(cold=True)).run() for each in (shorter, longer)]
    low, high = (Sm(rows, each, MODEL, Memory(cold=True)) for each in (shorter, longer))
    fast, whole = run_both(low, high, stalls_of_shorter=False)
    assert whole == alone[1]
    assert fast.stalls != alone[0].stalls
    assert not fast.accounted
    assert replace(fast, stalls=alone[0].stalls, accounted=True) == alone[0]
    hurried = Sm(rows, longer, MODEL, Memory(cold=True))
    hurried.accounts = False
    assert replace(hurried.run(), stalls=alone[1].stalls, accounted=True) == alone[1]


def test_other_parameters_or_memory_share_nothing() -> None:
    rows, longer = rows_of_loop(0), streams(3, 0)
    cold, warm = Sm(rows, longer, MODEL, Memory(cold=True)), Sm(rows, shortened(longer, 2), MODEL, Memory())
    assert _stops(warm, cold) == []
    assert run_both(warm, cold)[1] == Sm(rows, longer, MODEL, Memory(cold=True)).run()


@pytest.mark.parametrize("seed", range(8))
def test_running_ahead_is_issuing_one_by_one(seed: int) -> None:
    """A watched run issues every instruction by itself."""
    rows, made = rows_of_loop(seed), streams(6, seed)
    ahead = Sm(rows, made, MODEL, Memory()).run()
    watched = WatchedSm(rows, made, MODEL, Memory()).run()
    assert ahead.cycles == pytest.approx(watched.cycles, rel=1e-9)
    for position, tally in watched.stalls.items():
        assert ahead.stalls[position] == pytest.approx(tally, rel=1e-6, abs=1e-6)
