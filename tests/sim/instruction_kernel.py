"""Write a PTX kernel around one instruction and run it on the simulator, one thread per case."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from instruction_forms import Form
from instruction_inputs import CLASSES, pool, pool_of
from numpy.typing import NDArray

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice

Words = NDArray[np.unsignedinteger]
THREADS = 128
LETTERS = "abce"


@cache
def storage_bytes(kind: str) -> int:
    """Bytes of a value in memory: predicates as words, bytes in the 16 bits of their register."""
    if kind == "pred":
        return 4
    if kind in ("f16x2", "bf16x2"):
        return 4
    return max(2, int("".join(c for c in kind if c.isdigit())) // 8)


def header(target: str) -> str:
    return f".version {'8.0' if target == 'sm_80' else '8.3'}\n.target {target}\n.address_size 64\n"


def kernel(form: Form, entry: str) -> str:
    """The text of an entry that loads the arguments, executes the form once, and stores its results."""
    names = [f"d{i}" for i in range(len(form.results))] + list(LETTERS[: len(form.arguments)])
    kinds = [*form.results, *form.types]
    parameters = ", ".join([*(f".param .u64 p_{name}" for name in names), ".param .u32 p_n"])
    lines = [f".visible .entry {entry}({parameters})", "{", "    .reg .pred outside;", "    .reg .b32 i, n, t;"]
    for name, kind in zip(names, kinds, strict=True):
        declared = "pred" if kind == "pred" else f"b{8 * storage_bytes(kind)}"
        lines.append(f"    .reg .{declared} {name};  .reg .b64 address_{name};  .reg .b32 word_{name};")
    lines += ["    mov.u32 t, %tid.x;", "    mov.u32 i, %ctaid.x;", "    mov.u32 n, %ntid.x;",
              "    mad.lo.u32 i, i, n, t;", "    ld.param.u32 n, [p_n];", "    setp.ge.u32 outside, i, n;",
              "    @outside ret;"]  # fmt: skip
    for name, kind in zip(names, kinds, strict=True):
        lines += [f"    ld.param.u64 address_{name}, [p_{name}];",
                  f"    mad.wide.u32 address_{name}, i, {storage_bytes(kind)}, address_{name};"]  # fmt: skip
    for name, kind in list(zip(names, kinds, strict=True))[len(form.results) :]:
        if kind == "pred":
            lines += [f"    ld.global.u32 word_{name}, [address_{name}];", f"    setp.ne.u32 {name}, word_{name}, 0;"]
        else:
            lines.append(f"    ld.global.b{8 * storage_bytes(kind)} {name}, [address_{name}];")
    lines.append("    " + form.template.format(**{name: name for name in names}))
    for name, kind in list(zip(names, kinds, strict=True))[: len(form.results)]:
        if kind == "pred":
            lines += [f"    selp.u32 word_{name}, 1, 0, {name};", f"    st.global.u32 [address_{name}], word_{name};"]
        else:
            lines.append(f"    st.global.b{8 * storage_bytes(kind)} [address_{name}], {name};")
    return "\n".join([*lines, "    ret;", "}", ""])


@cache
def inputs(form: Form, input_class: str) -> tuple[tuple[int, ...], ...]:
    """One tuple of values for each argument."""
    return tuple(
        tuple(row[position] for row in pool(pool_of(argument), input_class))
        for position, argument in enumerate(form.arguments)
    )


def as_words(values: Sequence[int], kind: str) -> Words:
    """Values in the form they have in memory."""
    return np.array(values, np.dtype(f"u{storage_bytes(kind)}"))


def run_on(device: SimDevice, loaded: object, form: Form, arguments: Sequence[Words]) -> list[Words]:
    """Launch a loaded kernel (of either device) on whole arrays; its results as raw words."""
    count = len(arguments[0])
    outputs = [np.zeros(count, np.dtype(f"u{storage_bytes(kind)}")) for kind in form.results]
    buffers = []
    for array in (*outputs, *arguments):
        address = device.allocate(array.nbytes)
        device.write(address, array.view(np.uint8))
        buffers.append(address)
    grid = (-(-count // THREADS), 1, 1)
    packed = (*(address.to_bytes(8, "little") for address in buffers), count.to_bytes(4, "little"))
    device.launch(loaded, Launch(Geometry(grid, (THREADS, 1, 1)), packed))  # type: ignore[arg-type]
    device.synchronize()
    results = [device.read(a, o.nbytes).view(o.dtype) for a, o in zip(buffers, outputs, strict=False)]
    for address in buffers:
        device.free(address)
    return results


def simulate(form: Form, arguments: Sequence[Words]) -> list[Words]:
    """Run a form on a fresh simulator."""
    device = SimDevice()
    loaded = device.load_ptx(header(form.target) + kernel(form, "k"), "k")
    return run_on(device, loaded, form, arguments)


@cache
def simulated(form: Form) -> dict[str, list[list[int]]]:
    """Every class of input through one launch: for each class, each result's values."""
    arguments = [
        np.concatenate([as_words(inputs(form, c)[position], kind) for c in CLASSES])
        for position, kind in enumerate(form.types)
    ]
    results = simulate(form, arguments)
    bounds = np.cumsum([0, *(len(inputs(form, c)[0]) for c in CLASSES)])
    return {c: [result[bounds[i] : bounds[i + 1]].tolist() for result in results] for i, c in enumerate(CLASSES)}
