"""The rule of each instruction, by opcode: what it does to images.

An instruction that is not here and computes with a value of the matrices loses it: its result has no certificate. One
that is not here and reads memory ends the proof, since what it reads is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.bulk_copy import Transfer
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.proof import arithmetic, atomics, hopper, matrices, moves
from gemmsmith.sim.proof.bit_moves import move_bits
from gemmsmith.sim.proof.session import NoProof, Session
from gemmsmith.sim.proof.wave import WaveImages

Execute = Callable[[Execution, Bundle[Any], Lanes], None]

# Rules of what computes from registers alone.
_COMPUTES: dict[str, arithmetic.Rule] = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "mad", "neg"), arithmetic.floating),
    "dp4a": arithmetic.dot, "dp2a": arithmetic.dot, "cvt": arithmetic.convert, "selp": arithmetic.select,
    **dict.fromkeys(("setp", "set", "testp", "slct"), arithmetic.compare),
    "mov": moves.move, "shfl": moves.shuffle, "movmatrix": matrices.transpose, "mma": matrices.multiply_add,
    **dict.fromkeys(("and", "or", "xor", "not", "shl", "shr", "shf", "bfe", "bfi", "prmt", "lop3"), move_bits),
    "min": arithmetic.lost("takes the smaller of two values"),
    "max": arithmetic.lost("takes the larger of two values"),
    "abs": arithmetic.lost("takes an absolute value"),
    **dict.fromkeys(("div", "rcp"), arithmetic.lost("divides")),
    **dict.fromkeys(("sqrt", "rsqrt"), arithmetic.lost("takes a root")),
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh"), arithmetic.lost("computes a function, not a polynomial")),
}  # fmt: skip
# Rules of what accesses memory.
_ACCESSES: dict[str, arithmetic.Rule] = {
    "ld": moves.load, "ldu": moves.load, "st": moves.store, "cp": moves.copy, "ldmatrix": matrices.load_matrix,
    "stmatrix": matrices.store_matrix, "atom": atomics.update, "red": atomics.update, "wgmma": hopper.multiply,
}  # fmt: skip
# What accesses memory in which no value of a matrix can be.
_SYNCHRONISES = ("mbarrier", "bar", "barrier", "prefetch", "prefetchu", "fence", "membar", "discard", "applypriority")
# What reads or writes arrays that have no images.
_TEXTURES = ("tex", "tld4", "txq", "suld", "sust", "sured", "suq")


def instrumented(lowered: Lowered, session: Session) -> Lowered:
    """The program with the rule of each instruction around its execution."""
    known: dict[tuple[str, Any], Execute] = {}

    def new(machine: Execution) -> WaveImages:
        return WaveImages(machine, session)

    operations = []
    for operation in lowered.operations:
        key = (operation.instruction.opcode, operation.execute)
        if key not in known:
            known[key] = _watched(new, *key)
        operations.append(replace(operation, execute=known[key]))
    return replace(lowered, operations=tuple(operations))


def _watched(new: Callable[[Execution], WaveImages], opcode: str, original: Execute) -> Execute:
    rule, access = _COMPUTES.get(opcode), _ACCESSES.get(opcode)

    def execute(machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        wave = machine.unit(new)

        def run(other: Bundle[Any] | None = None) -> None:
            original(machine, other or step, lanes)

        if opcode in _TEXTURES:
            raise NoProof("textures and surfaces are not followed", step.first.instruction)
        if isinstance(step.detail, Transfer):
            hopper.bulk_copy(wave, step, lanes, run)
        elif access is not None and (step.pointers or step.access is not None):
            access(wave, step, lanes, run)
        elif step.access is not None and opcode not in _SYNCHRONISES:
            raise NoProof(f"{opcode} reads or writes memory in a way that is not followed", step.first.instruction)
        elif arithmetic.sources_are_plain(wave, step, lanes):
            run()
            wave.clear(step, lanes)
        elif rule is not None:
            rule(wave, step, lanes, run)
        else:
            arithmetic.lost(f"computes {opcode} of data")(wave, step, lanes, run)

    return execute
