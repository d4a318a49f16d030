"""What arithmetic, conversions and comparisons do to images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.proof import images
from gemmsmith.sim.proof.bit_moves import move_bits
from gemmsmith.sim.proof.images import BYTES, KINDS, NAMES, WHOLE, Image, Kind
from gemmsmith.sim.proof.session import NoProof
from gemmsmith.sim.proof.wave import WaveImages

Run = Callable[..., None]
Rule = Callable[[WaveImages, Bundle[Any], Lanes, Run], None]

_DIRECTED = ("rz", "rm", "rp")


def words_of(step: Bundle[Any]) -> list[str]:
    """The opcode and its modifiers."""
    return step.first.instruction.name.split(".")


def sources_are_plain(wave: WaveImages, step: Bundle[Any], lanes: Lanes) -> bool:
    return not any(wave.tagged(source, lanes) for source in step.sources)


def lost(why: str) -> Rule:
    """An instruction that makes no sums and products of what it is given."""

    def rule(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
        run()
        wave.put_lost(step, lanes, why)

    return rule


def floating(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """add, sub, mul, fma, mad and neg of floating-point numbers, single or in pairs; of integers too."""
    opcode, *words = words_of(step)
    kind = KINDS.get(words[-1])
    if kind is None or "sat" in words or "relu" in words or "hi" in words or "cc" in words:
        run()
        wave.put_lost(step, lanes, "clamps or carries" if kind else f"{opcode} of data")
        return
    if kind in WHOLE:
        _whole(wave, step, lanes, run)
        return
    name = NAMES[kind] + (".rz" if any(mode in words for mode in _DIRECTED) else "")
    halves = (0, 2) if words[-1].endswith("x2") else (0,)
    found = []
    for at in halves:
        given = [wave.number(step, source, lanes, kind, at) for source in step.sources]
        found.append((at, wave.session.vanished(_combined(wave, opcode, given, kind, name), step.first.instruction)))
    if any(has_constants(image) for _, image in found):  # nobody looks at the bits of other results
        run()
    for at, image in found:
        wave.put_number(step.targets[0], lanes, image, kind, at)


def has_constants(image: Image) -> bool:
    """Whether there are numbers among these whose real value matters: constants, and what is made of scalars alone."""
    return not bool((image.tag & images.DATA).all())


def _combined(wave: WaveImages, opcode: str, given: list[Image], kind: Kind, name: str) -> Image:
    session = wave.session
    if opcode == "add":
        return session.add(given[0], given[1], kind, name)
    if opcode == "sub":
        return session.add(given[0], session.negative(given[1]), kind, name)
    if opcode == "mul":
        return session.multiply(given[0], given[1], kind, name)
    if opcode == "neg":
        return session.negative(given[0])
    return session.fma(given[0], given[1], given[2], kind, name)


def _whole(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """Integers: exact as long as they do not overflow. Where bits are put together by arithmetic, bits move."""
    opcode, *words = words_of(step)
    kind = KINDS[words[-1]]
    wide = {Kind.I16: Kind.I32, Kind.I32: Kind.I64}.get(kind, kind) if "wide" in words else kind
    kinds = [kind, kind, wide][: len(step.sources)]
    packs = wave.session.unit == 1 and any(_shifts(source.constant) for source in step.sources)
    for source, each in zip(step.sources, kinds, strict=True):
        if packs or BYTES[each] < wave.session.unit or wave.read(source, lanes, each)[1] is not None:
            move_bits(wave, step, lanes, run)
            return
    given = [wave.number(step, source, lanes, each) for source, each in zip(step.sources, kinds, strict=True)]
    found = wave.session.vanished(_combined(wave, opcode, given, wide, NAMES[wide]), step.first.instruction)
    run()
    wave.put_number(step.targets[0], lanes, found, wide)


def _shifts(constant: Any) -> bool:
    """Whether a factor moves a number by whole bytes."""
    return constant is not None and bool(np.isin(np.asarray(constant), (1 << 8, 1 << 16, 1 << 24)).all())


def dot(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """dp4a: four products of bytes, added to an integer; dp2a: two, of 16-bit parts of a and one half of b's bytes."""
    opcode, *words = words_of(step)
    width = 1 if opcode == "dp4a" else 2  # bytes of a part of a
    bytes_of = [Kind.S8 if word == "s32" else Kind.U8 for word in words[-2:]]
    kinds = [bytes_of[0] if width == 1 else Kind.I16, bytes_of[1]]
    first_of_b = 2 if "hi" in words else 0
    session = wave.session
    c = wave.number(step, step.sources[2], lanes, Kind.I32)
    total, products = c, []
    for n in range(4 // width):
        a, b = (wave.number(step, step.sources[of], lanes, kinds[of], at)
                for of, at in ((0, width * n), (1, first_of_b + n)))  # fmt: skip
        product = session.multiply(a, b, Kind.I32, NAMES[Kind.I32])
        products.append(np.broadcast_to(session.trees.times(a.tree, b.tree, plain=True), product.tree.shape))
        total = session.add(total, product, Kind.I32, NAMES[Kind.I32])
    shape = np.broadcast_shapes(c.tree.shape, *(p.shape for p in products))
    stacked = np.stack([np.broadcast_to(p, shape) for p in products])
    tree = session.trees.block(np.broadcast_to(c.tree, shape), stacked, "i32")
    run()
    wave.put_number(step.targets[0], lanes, Image(total.tag, total.element, tree), Kind.I32)


# -- conversions --------------------------------------------------------------------------------------


def convert(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """cvt: a wider type has the same value, a narrower one the same up to a rounding."""
    _, *words = words_of(step)
    to, given = words[-2], words[-1]
    if {"sat", "relu", "satfinite", "pack"} & set(words):
        lost("clamps a value to a range")(wave, step, lanes, run)
        return
    source, target = KINDS.get(given), KINDS.get(to)
    if source is None or target is None:
        lost("converts to a type that is not followed")(wave, step, lanes, run)
        return
    if source in WHOLE and target in WHOLE:
        _convert_whole(wave, step, lanes, run, source, target)
        return
    if target in WHOLE:
        lost("converts a floating-point number to an integer")(wave, step, lanes, run)
        return
    directed = ".rz" if any(word in words for word in (*_DIRECTED, "rzi", "rmi", "rpi", "rni")) else ""
    if any(word in words for word in ("rni", "rzi", "rmi", "rpi")):
        lost("rounds a number to an integer")(wave, step, lanes, run)
        return
    numbers = [wave.number(step, each, lanes, source) for each in step.sources]
    rounds = BYTES[target] < BYTES[source] or source in WHOLE or to == "tf32" or (target, source) == (
        Kind.F16, Kind.BF16)  # fmt: skip
    name = ("tf32" if to == "tf32" else NAMES[target]) + directed
    found = [_converted(wave, image, name if rounds else "") for image in numbers]
    run()
    if to.endswith("x2"):  # the first operand is the upper half
        wave.put_number(step.targets[0], lanes, found[1], target, 0)
        wave.put_number(step.targets[0], lanes, found[0], target, 2)
        return
    wave.put_number(step.targets[0], lanes, found[0], target)


def _converted(wave: WaveImages, image: Image, rounds: str) -> Image:
    tree = wave.session.trees.rounded(image.tree, rounds, image.tag != 0) if rounds else image.tree
    return Image(image.tag, image.element, tree)


def _convert_whole(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run, source: Kind, target: Kind) -> None:
    given = step.sources[0]
    if BYTES[source] < wave.session.unit or wave.read(given, lanes, source)[1] is not None:
        move_bits(wave, step, lanes, run)
        return
    image = wave.number(step, given, lanes, source)
    kinds = np.unique(image.tag[image.tag != 0] >> 3 & 15)
    byte = kinds.size == 1 and int(kinds[0]) in (Kind.S8, Kind.U8)
    if not byte and BYTES[target] < BYTES[source]:
        lost("cuts an integer to fewer bits")(wave, step, lanes, run)
        return
    run()
    into = step.targets[0]
    if byte:
        signed = int(kinds[0]) == Kind.S8
        wave.clear(step, lanes)
        wave.put_number(into, lanes, image, Kind(int(kinds[0])), 0, wave.units[into.file] if signed else 1)
        return
    size = wave.units[into.file] * wave.session.unit
    wave.put_number(into, lanes, image, {2: Kind.I16, 4: Kind.I32, 8: Kind.I64}[size])


# -- comparisons --------------------------------------------------------------------------------------


def compare(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """alpha and beta may be compared: the proof is then for scalars that compare alike."""
    instruction = step.first.instruction
    if any(wave.has_matrices(source, lanes) for source in step.sources):
        raise NoProof("compares a value of the matrices", instruction)
    wave.session.compared[instruction.where] = None
    run()
    wave.clear(step, lanes)


def select(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """selp: the predicate never has an image."""
    first, second, predicate = step.sources
    into = step.targets[0]
    one, zero = np.uint8(1), np.uint8(0)  # the predicate may be negated, which the function knows
    chosen = np.atleast_1d(np.asarray(step.detail(one, zero, wave.machine.fetch(predicate, lanes)))) == one
    found = []
    for n in range(wave.units[into.file]):
        a, b = (images.blank((1,)) if s.constant is not None else wave.unit(s, lanes, n) for s in (first, second))
        found.append(images.where(chosen, a, b))
    run()
    for n, image in enumerate(found):
        wave.put_unit(into, lanes, n, image)
