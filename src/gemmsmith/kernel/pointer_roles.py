"""Which matrix a pointer of a user's kernel is: by its use, by its name, and by what the others are."""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.field_roles import own_name
from gemmsmith.kernel.pointer_use import written
from gemmsmith.kernel.role_names import is_weight, pointer_role
from gemmsmith.kernel.signature import SCRATCH, Signature
from gemmsmith.kernel.written_parameter import WrittenParameter

_LENGTH = 1024  # of the arrays in an example
_SHORT = {"fp32": "f32", "fp64": "f64", "fp16": "f16", "bf16": "bf16", "int8": "i8", "uint8": "u8", "int32": "i32"}


def pointer_roles(
    entry: str, found: list[WrittenParameter], body: str, scratch: frozenset[str] = frozenset(),
    null: frozenset[str] = frozenset(),
) -> dict[int, str]:  # fmt: skip
    shared = {i: SCRATCH for i, p in enumerate(found) if p.is_pointer and p.name in scratch}
    shared |= {i: "0" for i, p in enumerate(found) if p.is_pointer and p.name in null and not pointer_role(p.name)}
    pointers = {i: p.name for i, p in enumerate(found) if p.is_pointer and i not in shared}
    mapped = {p.map for p in found if p.map}
    if mapped and (pointers or "C" in mapped):
        return shared | _roles_beside_maps(found, pointers, mapped, body)
    if len(pointers) < 3:
        names = ", ".join(pointers.values()) or "none"
        raise SignatureError(
            f"{entry} is not a matrix product: it takes {len(pointers)} pointers ({names}), not A, B and C",
            f"run it with your own arguments: gemmsmith check FILE.cu:{entry} --grid … --block … --args "
            f"'{_own_arguments(found)}' --expect FILE.py:FUNCTION",
        )
    free = [i for i in pointers if not found[i].type.const]
    return shared | _roles_by_use(pointers, free, written([pointers[i] for i in free], body))


def _own_arguments(found: list[WrittenParameter]) -> str:
    """``--args`` with every parameter: outputs are zeros, inputs random, numbers the arrays' length."""
    texts: dict[str, str] = {}
    for each in found:
        kind = _SHORT.get(each.type.element.name, "") if each.type.element is not None else ""
        made = f"zeros({_LENGTH},{kind})" if not each.type.const else f"randn({_LENGTH},{kind})"
        made = made.replace("randn(", "randint(-8,8,") if kind.startswith(("i", "u")) else made
        name, _, field = each.name.partition(".")
        texts[name] = "…" if field or each.map or (each.is_pointer and not kind) else (
            made if each.is_pointer else str(_LENGTH))  # fmt: skip
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _roles_beside_maps(
    found: list[WrittenParameter], pointers: dict[int, str], mapped: set[str], body: str
) -> dict[int, str]:  # fmt: skip
    """Roles of the pointers of a kernel that takes other matrices as tensor maps; what neither tells stays open."""
    named = {i: pointer_role(name) or pointer_role(own_name(name)) for i, name in pointers.items()}
    roles = {i: role if role in ("A", "B", "bias") and role not in mapped else "" for i, role in named.items()}
    if "C" not in mapped:
        free = [i for i in pointers if not found[i].type.const]
        used = written([pointers[i] for i in free], body)
        output = _output(named, free, [i for i in free if pointers[i] in used])
        if output is not None:
            roles[output] = "C"
    lacking = [role for role in "AB" if role not in mapped and role not in roles.values()]
    open_ones = [i for i in pointers if not roles[i]]
    if len(open_ones) == len(lacking) == 1:
        roles[open_ones[0]] = lacking[0]
    return roles


def with_written(signature: Signature, names: set[str]) -> Signature:
    """The roles of the pointers where the compiled kernel shows that it writes ``names``, and no others."""
    pointers = {
        i: arg.name for i, arg in enumerate(signature.arguments) if arg.code == "P" and arg.role not in (SCRATCH, "0")
    }
    roles = _roles_by_use(pointers, [i for i in pointers if pointers[i] in names], names)
    arguments = tuple(replace(arg, role=roles.get(i, arg.role)) for i, arg in enumerate(signature.arguments))
    return replace(signature, arguments=arguments)


def _roles_by_use(pointers: dict[int, str], free: list[int], used: set[str]) -> dict[int, str]:
    """Roles of pointers by their index. ``free``: those that may be written; ``used``: names that are."""
    named = {i: pointer_role(name) or pointer_role(own_name(name)) for i, name in pointers.items()}
    output = _output(named, free, [i for i in free if pointers[i] in used])
    if output is None:
        return {i: role if list(named.values()).count(role) == 1 else "" for i, role in named.items()}
    named |= dict.fromkeys(_biases([i for i in pointers if i != output], pointers, named), "bias")
    roles = {i: "bias" for i in pointers if named[i] == "bias" and i != output}
    inputs = [i for i in pointers if i != output and i not in roles]
    a, b = ([i for i in inputs if named[i] == role] for role in "AB")
    addend = [i for i in inputs if named[i] in ("C", "D")]
    named_output = [i for i in pointers if named[i] in ("C", "D")]
    if len(a) == len(b) == 1:
        rest = [i for i in inputs if i not in (*a, *b)]
        roles |= {a[0]: "A", b[0]: "B"}
    elif len(inputs) - len(addend) == 2:
        rest = addend
        roles |= dict(zip((i for i in inputs if i not in addend), "AB", strict=True))
    elif len(inputs) == 2:
        rest = []
        roles |= dict(zip(inputs, "AB", strict=True))
    else:
        return {**dict.fromkeys(pointers, ""), **roles, output: "C"}
    if rest and output in named_output and all(pointers[i] in used and not named[i] for i in rest):
        return roles | dict.fromkeys(rest, SCRATCH) | {output: "C"}  # written as well: no addend, but a workspace
    if len(rest) == 1:  # D = alpha·A·B + beta·C
        return roles | {rest[0]: "C", output: "D"}
    return roles | dict.fromkeys(rest, "") | {output: "C"}


def _biases(inputs: list[int], pointers: dict[int, str], named: dict[int, str]) -> list[int]:
    """The input that is called b beside a matrix of weights and a third input: X, W and b of a linear layer."""
    b, weights = ([i for i in inputs if named[i] == "B" and is_weight(pointers[i]) == heavy] for heavy in (False, True))
    return b if len(inputs) == 3 and len(b) == len(weights) == 1 else []


def _output(named: dict[int, str], free: list[int], used: list[int]) -> int | None:
    """The pointer that is written: by its use, then by its name."""
    by_name = [i for i in free if named[i] == "D"] or [i for i in free if named[i] == "C"]
    if len(used) == 1:
        return used[0]
    among = [i for i in by_name if i in used] or by_name
    if len(among) == 1:
        return among[0]
    return free[0] if len(free) == 1 else None
