"""ld and st of every type, vector length and space; extension to wider registers; cache hints."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import Array, kernel, launch

from gemmsmith.errors import SimulationError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice

WIDTHS = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8,
}  # fmt: skip
VECTORS = [(kind, count) for kind, width in WIDTHS.items() for count in (1, 2, 4) if width * count <= 16]
EXTENSIONS = [(kind, bits) for kind, width in WIDTHS.items() for bits in (16, 32, 64)
              if kind[0] != "f" and bits >= 8 * width]  # fmt: skip
REGISTER = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}
LANES = 32


def _input(nbytes: int) -> Array:
    return np.frombuffer(np.random.default_rng(nbytes).bytes(nbytes), np.uint8).copy()


def _registers(width: int, count: int) -> list[str]:
    return [f"{REGISTER[width]}{i}" for i in range(count)]


def _operand(names: list[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _form(kind: str, count: int) -> str:
    return f"{'' if count == 1 else f'v{count}.'}{kind}"


# For each space: declarations, and the code that puts the address of this thread's 16 bytes into %d5.
SPACES = {
    "global": ("", "add.s64 %d5, %d4, %b1;", ".global"),
    "shared": (".shared .align 16 .b8 room[512];", "mov.u64 %d5, room; add.s64 %d5, %d5, %d4;", ".shared"),
    "local": (".local .align 16 .b8 room[32];", "mov.u64 %d5, room;", ".local"),
    "generic global": ("", "add.s64 %d5, %d4, %b1; cvta.global.u64 %d5, %d5;", ""),
    "generic shared": (
        ".shared .align 16 .b8 room[512];", "mov.u64 %d5, room; add.s64 %d5, %d5, %d4; cvta.shared.u64 %d5, %d5;", ""),
    "generic local": (".local .align 16 .b8 room[32];", "mov.u64 %d5, room; cvta.local.u64 %d5, %d5;", ""),
    "round trip": (
        ".shared .align 16 .b8 room[512];",
        "mov.u64 %d5, room; add.s64 %d5, %d5, %d4; cvta.shared.u64 %d5, %d5; cvta.to.shared.u64 %d5, %d5;", ".shared"),
}  # fmt: skip


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("kind", "count"), VECTORS)
def test_what_is_stored_is_loaded(kind: str, count: int, space: str) -> None:
    """Every thread moves its own bytes: global → registers → the space → registers → global."""
    declarations, address, suffix = SPACES[space]
    names = _operand(_registers(WIDTHS[kind], count))
    form = _form(kind, count)
    body = f"""
    mul.wide.u32 %d4, %t, 16; add.s64 %d6, %d4, %b0; add.s64 %d7, %d4, %b2; {address}
    ld.global.{form} {names}, [%d6];
    st{suffix}.{form} [%d5], {names};
    ld{suffix}.{form} {names}, [%d5];
    st.global.{form} [%d7], {names};
    """
    data, size = _input(16 * LANES), WIDTHS[kind] * count
    _, _, found = launch(body, data, np.zeros_like(data), np.zeros_like(data), declarations=declarations)
    wanted = np.zeros((LANES, 16), np.uint8)
    wanted[:, :size] = data.reshape(LANES, 16)[:, :size]
    assert found.tobytes() == wanted.tobytes()


def _load_fixed(source: str, kind: str, count: int, declarations: str, parameter: bytes | None) -> bytes:
    """Load from [source] once by every thread; what thread 0 stored."""
    names = _operand(_registers(WIDTHS[kind], count))
    body = f"ld.{source.split('[', maxsplit=1)[0].strip()}.{_form(kind, count)} {names}, [{source.split('[')[1]};\n"
    body += f"st.global.{_form(kind, count)} [%b0], {names};"
    device = SimDevice()
    out = device.allocate(16)
    text = kernel(body, 1, "")
    arguments: tuple[bytes, ...] = (out.to_bytes(8, "little"),)
    if parameter is not None:
        text = text.replace("k(.param .u64 p0)", f"k(.param .u64 p0, .param .align 16 .b8 q[{len(parameter)}])")
        arguments = (*arguments, parameter)
    text = text.replace(".visible", f"{declarations}\n.visible")
    device.launch(device.load_ptx(text, "k"), Launch(Geometry((1, 1, 1), (32, 1, 1)), arguments))
    return device.read(out, 16).tobytes()[: WIDTHS[kind] * count]


@pytest.mark.parametrize(("kind", "count"), VECTORS)
@pytest.mark.parametrize("offset", [0, 16])
def test_parameters_are_loaded(kind: str, count: int, offset: int) -> None:
    data = _input(48).tobytes()
    wanted = data[offset : offset + WIDTHS[kind] * count]
    assert _load_fixed(f"param [q+{offset}]", kind, count, "", data) == wanted


@pytest.mark.parametrize("space", ["const", "global"])
@pytest.mark.parametrize(("kind", "count"), VECTORS)
def test_initialised_variables_are_loaded(kind: str, count: int, space: str) -> None:
    data = _input(48).tobytes()
    declaration = f".{space} .align 16 .b8 table[48] = {{{', '.join(map(str, data))}}};"
    wanted = data[16 : 16 + WIDTHS[kind] * count]
    assert _load_fixed(f"{space} [table+16]", kind, count, declaration, None) == wanted


@pytest.mark.parametrize(("kind", "bits"), EXTENSIONS)
def test_a_narrow_load_extends_by_its_type(kind: str, bits: int) -> None:
    width = WIDTHS[kind]
    name = REGISTER[bits // 8] + "1"
    body = f"""
    mul.wide.u32 %d4, %t, {width}; add.s64 %d4, %d4, %b0; mul.wide.u32 %d5, %t, 8; add.s64 %d5, %d5, %b1;
    ld.global.{kind} {name}, [%d4];
    st.global.b{bits} [%d5], {name};
    """
    data = _input(width * LANES)
    _, found = launch(body, data, np.zeros(LANES, np.uint64))
    for lane, value in enumerate(found.tolist()):
        raw = data[lane * width : (lane + 1) * width].tobytes()
        assert value == int.from_bytes(raw, "little", signed=kind[0] == "s") % (1 << bits)


@pytest.mark.parametrize(("kind", "bits"), EXTENSIONS)
def test_a_narrow_store_keeps_the_low_bytes(kind: str, bits: int) -> None:
    width, name = WIDTHS[kind], REGISTER[bits // 8] + "1"
    body = f"""
    mul.wide.u32 %d4, %t, 8; add.s64 %d5, %d4, %b1; add.s64 %d4, %d4, %b0;
    ld.global.b{bits} {name}, [%d4];
    st.global.{kind} [%d5], {name};
    """
    data = _input(8 * LANES)
    _, found = launch(body, data, np.full(8 * LANES, 0x5A, np.uint8))
    wanted = np.full((LANES, 8), 0x5A, np.uint8)
    wanted[:, :width] = data.reshape(LANES, 8)[:, :width]
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    "hints",
    ["nc", "ca", "cg", "cs", "lu", "cv", "nc.L1::no_allocate", "nc.L1::no_allocate.L2::128B", "L1::evict_last",
     "L2::256B", "volatile", "relaxed.gpu", "relaxed.sys", "relaxed.cta", "weak"],
)  # fmt: skip
def test_cache_and_ordering_hints_do_not_change_a_load(hints: str) -> None:
    first = hints.split(".", maxsplit=1)[0]
    order = f"{hints}.global" if first in ("volatile", "relaxed", "weak") else f"global.{hints}"
    body = "mul.wide.u32 %d4, %t, 16; add.s64 %d5, %d4, %b1; add.s64 %d4, %d4, %b0;\n"
    body += f"ld.{order}.v4.f32 {{%f1, %f2, %f3, %f4}}, [%d4];\nst.global.v4.f32 [%d5], {{%f1, %f2, %f3, %f4}};"
    data = _input(16 * LANES)
    assert launch(body, data, np.zeros_like(data))[1].tobytes() == data.tobytes()


@pytest.mark.parametrize("hints", ["wb", "cg", "cs", "wt"])
def test_cache_hints_do_not_change_a_store(hints: str) -> None:
    body = f"mul.wide.u32 %d4, %t, 4; add.s64 %d4, %d4, %b0;\nst.global.{hints}.u32 [%d4], %t;"
    assert launch(body, np.zeros(LANES, np.uint32))[0].tolist() == list(range(LANES))


def test_a_parameter_is_read_through_a_register() -> None:
    """Lanes of one warp read the low and the high word of the second parameter."""
    body = """
    mov.u64 %d4, p1; and.b32 %r1, %t, 1; mul.wide.u32 %d5, %r1, 4; add.s64 %d4, %d4, %d5;
    ld.param.u32 %r2, [%d4]; mul.wide.u32 %d6, %t, 4; add.s64 %d6, %d6, %b1; st.global.u32 [%d6], %r2;
    st.global.u64 [%b0], %b1;
    """
    address, found = launch(body, np.zeros(1, np.uint64), np.zeros(LANES, np.uint32))
    assert found.tolist() == [int(address[0]) >> 32 * (lane & 1) & 0xFFFFFFFF for lane in range(LANES)]
    with pytest.raises(SimulationError, match=r"out-of-bounds param read at address 0x10: .* 16 bytes of parameters"):
        launch("mov.u64 %d4, p1; ld.param.u32 %r2, [%d4+8];", *[np.zeros(1, np.uint64)] * 2)


@pytest.mark.parametrize("offset", [0, 4, 124, -4])
def test_addresses_take_signed_offsets(offset: int) -> None:
    base = 8 if offset < 0 else 0
    body = f"add.s64 %d4, %b0, {base};\nld.global.u32 %r1, [%d4+{offset}];\nst.global.u32 [%b1], %r1;"
    data = np.arange(LANES, dtype=np.uint32) + 7
    assert launch(body, data, np.zeros(1, np.uint32))[1][0] == data[(base + offset) // 4]
