"""Forms that the second recording does not have yet, against Python's own arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from instruction_forms import Form
from instruction_inputs import CLASSES, pool, pool_of
from instruction_kernel import Words, simulate, storage_bytes
from oracle_integers import COMBINE, COMPARE, read
from ptx_launch import launch, words
from scalar_forms import LATER, scalar_form_named
from scalar_recording import ROWS

FORMS = {form.name: form for group in LATER for form in group()}


def operands(form: Form) -> list[Words]:
    return [
        np.array([row[n] for c in CLASSES for row in pool(pool_of(a), c)[: ROWS[c]]], f"u{storage_bytes(kind)}")
        for n, (a, kind) in enumerate(zip(form.arguments, form.types, strict=True))
    ]


def check(name: str, oracle: Callable[..., int]) -> None:
    given = operands(FORMS[name])
    (found,) = simulate(FORMS[name], given)
    wanted = [oracle(*map(int, case)) for case in zip(*given, strict=True)]
    wrong = [n for n, (f, w) in enumerate(zip(found.tolist(), wanted, strict=True)) if f != w]
    assert [(hex(found[n]), hex(wanted[n])) for n in wrong] == []


@pytest.mark.parametrize("name", [name for name in FORMS if name.startswith("set.")])
def test_set_with_a_predicate(name: str) -> None:
    _, comparison, combine, to, kind = name.split(".")
    true = 0x3F800000 if to == "f32" else 0xFFFFFFFF
    compare, join = COMPARE[comparison], COMBINE[combine]
    check(name, lambda a, b, p: true if join(compare(read(kind, a), read(kind, b)), bool(p)) else 0)


@pytest.mark.parametrize("name", [name for name in FORMS if name.startswith("vabsdiff4")])
def test_differences_of_bytes(name: str) -> None:
    kind = "s8" if ".s32" in name else "u8"

    def oracle(a: int, b: int, c: int) -> int:
        parts = [abs(read(kind, a >> s) - read(kind, b >> s)) for s in (0, 8, 16, 24)]
        return (sum(parts) + c if "add" in name else sum((p & 255) << 8 * n for n, p in enumerate(parts))) % (1 << 32)

    check(name, oracle)


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_whole_numbers_of_bf16(mode: str) -> None:
    rounding: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}

    def oracle(a: int) -> int:
        value = float(np.uint32(a << 16).view(np.float32))
        if math.isnan(value):
            return 0x7FFF
        whole = value if math.isinf(value) else math.copysign(rounding[mode](value), value)
        return int(np.float32(whole).view(np.uint32)) >> 16

    check(f"cvt.{mode}.bf16.bf16", oracle)


@pytest.mark.parametrize("name", [name for name in FORMS if name.startswith(("atom", "red"))])
def test_a_vector_is_updated_element_by_element(name: str) -> None:
    form = FORMS[name]
    kind = form.types[0]
    single = scalar_form_named(f"atom.global.add{'.noftz' if kind != 'f32' else ''}.{kind}")
    a, b, c, e = operands(form)
    first, second, memory = simulate(form, [a, b, c, e])
    low, high = (simulate(single, [x, y])[1].astype(np.uint64) for x, y in ((a, c), (b, e)))
    assert (first.tolist(), second.tolist()) == (a.tolist(), b.tolist())
    assert memory.tolist() == (low | high << np.uint64(32)).tolist()


def test_reserved_shared_memory_is_zero_and_apart_from_the_kernel_s_own() -> None:
    body = """mov.u32 %r1, %reserved_smem_offset_1; mov.u32 %r2, room; st.shared.u32 [%r2], 7; bar.sync 0;
    red.shared.or.b32 [%r1], 4; bar.sync 0; ld.shared.u32 %r3, [%r1]; ld.shared.u32 %r4, [%r2]; add.u32 %r3, %r3, %r4;
    st.global.u32 [%b0], %r3;"""
    assert launch(body, words(1), declarations=".shared .b32 room;")[0][0] == 11
