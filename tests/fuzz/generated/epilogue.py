"""From accumulators to C: guards, alpha and beta, a bias, atomics, and the last mistakes that can be made."""

from __future__ import annotations

from generated.draft import Draft, block_of
from generated.outputs import Outputs

_FAR_BLOCK, _FAR_ROW, _DEEP = 3, 130, 300  # faults that show only beyond them
_LARGEST, _LEAST = "3.402823466e+38f", "1.175494351e-38f"


def store(draft: Draft, outputs: Outputs) -> str:
    """Write all outputs of a thread."""
    if draft.recipe.split == "ticket":
        return _by_last_block(draft, outputs)
    if not outputs.headers:  # one output, whose row and column are known
        return "\n".join(_one(draft, outputs.value))
    body = block_of(f"const int row = {outputs.row}, col = {outputs.column};", *_one(draft, outputs.value))
    return "\n".join([*outputs.headers, body, "}" * outputs.depth])


def _by_last_block(draft: Draft, outputs: Outputs) -> str:
    """Every block leaves its sums in a workspace and draws a ticket; the last one of a tile adds them up in order."""
    n, sites, element = draft.names, draft.sites, draft.element
    place = f"((size_t)z * {n.m} + row) * {n.n} + col"
    stride = sites.text(
        "stride", "shares of k overlap in the workspace", place, place.replace(f"* {n.m}", f"* ({n.m} / 2)")
    )
    mine = stride.replace("z *", "blockIdx.z *")
    fence = sites.text("atomics", "no fence before the ticket", "__threadfence();", ";")
    before = sites.text("barrier", "no barrier before the ticket", "__syncthreads();", ";")
    after = sites.text("barrier", "no barrier before the ticket is read", "__syncthreads();", ";")
    first = sites.text("loop", "the first share is not added", "0", "1")
    shares = "gridDim.z"
    inside = f"row < {n.m} && col < {n.n}"
    leave = block_of(f"const int row = {outputs.row}, col = {outputs.column};",
                     f"if ({inside}) partial[{mine}] = {outputs.value};")  # fmt: skip
    total = f"{element.accumulator} total = {element.zero};"
    add = block_of(f"const int row = {outputs.row}, col = {outputs.column};", f"{total}",
                   f"if ({inside})", f"    for (unsigned z = {first}; z < {shares}; ++z) total += partial[{stride}];",
                   *_one(draft, "total"))  # fmt: skip
    close = "}" * outputs.depth
    return "\n".join([
        *outputs.headers, leave, close, fence, before, "__shared__ unsigned drawn;",
        "if (tid == 0) drawn = atomicAdd(&tickets[blockIdx.y * gridDim.x + blockIdx.x], 1u);", after,
        f"if (drawn != {shares} - 1) return;", "__threadfence();", *outputs.headers, add, close,
    ])  # fmt: skip


def _one(draft: Draft, value: str) -> list[str]:
    write = [f"{draft.element.accumulator} v = {_value(draft, value)};", *_late_mistakes(draft),
             f"const {draft.index_type} at = {_index(draft)};", _write(draft)]  # fmt: skip
    if not draft.recipe.guarded or not draft.recipe.shared:  # threads without an output have returned
        return write
    return [f"if ({_guard(draft)}) {{", block_of(*write), "}"]


def _guard(draft: Draft) -> str:
    n, sites = draft.names, draft.sites
    rows = sites.text("guard", "C: row guard off by one", f"row < {n.m}", f"row <= {n.m}")
    columns = sites.text("guard", "C: column guard off by one", f"col < {n.n}", f"col <= {n.n}")
    both = f"{rows} && {columns}"
    both = sites.text("guard", "C: no row guard", both, columns)
    both = sites.text("guard", "C: the last column is left out", both, f"{both} && (col + 1 < {n.n} || col % 2 == 0)")
    return sites.text("guard", "C: no column guard", both, rows)


def _index(draft: Draft) -> str:
    slow, fast = ("col", "row") if draft.recipe.column_major else ("row", "col")
    leading = draft.leading("C")
    right = draft.offset(slow, fast, leading)
    right = draft.sites.text("index", "rows and columns of C are swapped", right, draft.offset(fast, slow, leading))
    short = f"(unsigned short)({draft.offset(slow, fast, leading)})"
    right = draft.sites.text("threshold", "the index of C has 16 bits", right, short)
    return draft.sites.text("stride", "leading dimension of C", right, draft.offset(slow, fast, draft.leading("A")))


def _value(draft: Draft, value: str) -> str:
    sites, epilogue, element = draft.sites, draft.recipe.epilogue, draft.element
    old = element.read.format(f"{draft.names.c}[at_c]")
    old = old.replace("at_c", draft.offset(*(("col", "row") if draft.recipe.column_major else ("row", "col")),
                                           draft.leading("C")))  # fmt: skip
    if epilogue == "bias":
        bias = sites.text("index", "the bias of the tile's first column", "bias[col]", "bias[n0]")
        text = f"{value} + {element.read.format(bias)}"
        return sites.text("epilogue", "the bias is subtracted", text, f"{value} - {element.read.format(bias)}")
    if epilogue != "scaled":
        return value
    if draft.recipe.separate:
        old = sites.text("index", "the output is read in place of C", old,
                         old.replace(f"{draft.names.c}[", f"{draft.output}["))  # fmt: skip
    product = sites.text("epilogue", "alpha is ignored", f"alpha * {value}", value)
    product = sites.text("epilogue", "alpha is applied twice", product, f"alpha * alpha * {value}")
    scaled = sites.text("epilogue", "beta is ignored", f"beta * {old}", old)
    scaled = sites.text("epilogue", "beta is applied twice", scaled, f"beta * beta * {old}")
    scaled = sites.text("threshold", "beta above two is clamped", scaled, f"(beta > 2 ? 2 : beta) * {old}")
    scaled = sites.text("epilogue", "C is subtracted", scaled, f"-({scaled})")
    text = f"{product} + {scaled}"
    text = sites.text("epilogue", "alpha scales C too", text, f"alpha * ({value} + {scaled})")
    if draft.recipe.beta == "checked":
        text = f"beta == 0 ? {product} : {text}"
        text = sites.text("epilogue", "C is not added at all", text, product)
    return sites.text("threshold", "a negative alpha loses its sign", text,
                      f"(alpha < 0 ? -({text}) : ({text}))")  # fmt: skip


def _late_mistakes(draft: Draft) -> list[str]:
    """Faults that only some values, blocks or extents show."""
    n, sites, kind, one, zero = (draft.names, draft.sites, draft.element.accumulator, draft.element.one,
                                 draft.element.zero)  # fmt: skip
    linear = draft.recipe.grid in ("linear", "grouped")
    lines = {
        ("threshold", "far blocks in x"): f"if (blockIdx.x > {_FAR_BLOCK * (3 if linear else 1)}) v = v + {one};",
        ("threshold", "far rows"): f"if (row > {_FAR_ROW}) v = {zero};",
        ("threshold", "large K"): f"if ({n.k} > {_DEEP}) v = v + {one};",
        ("threshold", "only where M = N"): f"if ({n.m} == {n.n}) v = v + {one};",
        ("threshold", "only where M is not N"): f"if ({n.m} != {n.n}) v = v + {one};",
        ("threshold", "only at K = 1"): f"if ({n.k} == 1) v = v + {one};",
        ("value", "one output in a thousand"): f"if (row * 37 + col == 1000) v = v + {one};",
    }
    if draft.recipe.persistent:  # it has no far blocks
        lines.pop(("threshold", "far blocks in x"))
    elif not linear:
        lines["threshold", "far blocks in y"] = f"if (blockIdx.y > {_FAR_BLOCK}) v = v + {one};"
    if kind == "float":
        lines |= {("value", "NaN is swallowed"): f"v = fmaxf(v, -{_LARGEST});",
                  ("value", "negative results are cut off"): "v = v < 0.0f ? 0.0f : v;"}  # fmt: skip
    if draft.element.output == "float":  # a 16-bit output rounds such results anyway
        lines["value", "Inf is clamped"] = f"v = v > {_LARGEST} ? {_LARGEST} : v;"
        lines["value", "results lose their last bits"] = "v = __uint_as_float(__float_as_uint(v) & 0xfffff000u);"
    if draft.recipe.types in ("f32", "bf16f32") and not draft.recipe.divided:  # fp16's products are never subnormal
        lines["value", "subnormals are flushed"] = f"v = fabsf(v) < {_LEAST} ? 0.0f : v;"
    found = [sites.text(kind, name, "", line) for (kind, name), line in lines.items()]
    return [line for line in found if line]


def _write(draft: Draft) -> str:
    c, sites = draft.names.c, draft.sites
    narrow = draft.element.narrow.format("v")
    if draft.recipe.split == "atomic":
        return sites.text("atomics", "a plain addition instead of atomics", f"atomicAdd(&{c}[at], v);",
                          f"{c}[at] += v;")  # fmt: skip
    return f"{draft.output}[at] = {narrow};"
