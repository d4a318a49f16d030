"""Recognise a kernel's entry and what each of its parameters means.

One mechanism serves the ladder's own rungs and any worklog kernel: parameters are recognised by name
(``M, N, K, alpha, A, B, beta, C`` and usual variants), or by the order the user declares.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gemmsmith.errors import SignatureError, UsageError
from gemmsmith.kernel.element_types import BF16_CODE
from gemmsmith.kernel.expressions import evaluate, rounds_up
from gemmsmith.kernel.slots import pack
from gemmsmith.problem import BF16, Problem

ROLES = ("M", "N", "K", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc", "bias", "strideA", "strideB", "strideC")
_POINTERS = ("A", "B", "C", "bias", "workspace")
# Further parameters of the ladder's own entries: tensor maps by value, the size of the batch, a workspace.
MAP_BYTES = 128
_MAP_ROLES = {"map_a": "mapA", "map_b": "mapB", "map_c": "mapC", "map_rest": "mapRest"}
EVERY_LD = "ld"  # one leading dimension for A, B and C
SCRATCH = "scratch"  # an array of a user's kernel that its blocks share: partial sums, counters, locks
_MAP_TYPE = "TensorMap"
MAP_POINTER = "M"  # the code of a pointer to a tensor map
_OWN_ROLES = ("batch", "workspace")

# Lower-case spellings seen in published kernels, by role.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "M": ("m", "rows", "num_rows", "m_size", "dim_m"),
    "N": ("n", "cols", "num_cols", "n_size", "dim_n", "width", "size"),
    "K": ("k", "inner", "k_size", "dim_k"),
    "alpha": ("alpha",),
    "beta": ("beta",),
    "A": ("a", "d_a", "mat_a", "mata", "a_ptr", "matrix_a", "dev_a", "lhs"),
    "B": ("b", "d_b", "mat_b", "matb", "b_ptr", "matrix_b", "dev_b", "rhs"),
    "C": ("c", "d_c", "mat_c", "matc", "c_ptr", "matrix_c", "dev_c", "out", "output", "result"),
    "lda": ("lda", "stride_a", "ld_a"),
    "ldb": ("ldb", "stride_b", "ld_b"),
    "ldc": ("ldc", "stride_c", "ld_c"),
    "bias": ("bias",),
    "strideA": ("stridea", "batch_stride_a"),
    "strideB": ("strideb", "batch_stride_b"),
    "strideC": ("stridec", "batch_stride_c"),
}
_ROLE_OF = {spelling: role for role, spellings in _SPELLINGS.items() for spelling in spellings}

# struct codes of the scalar types a GEMM entry may take.
_SCALARS = {
    "int": "i", "unsigned": "I", "unsigned int": "I", "uint": "I", "uint32_t": "I", "int32_t": "i",
    "long": "q", "long long": "q", "long int": "q", "long long int": "q", "int64_t": "q", "ptrdiff_t": "q",
    "size_t": "Q", "unsigned long": "Q", "unsigned long long": "Q", "uint64_t": "Q",
    "float": "f", "double": "d",
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """One parameter of an entry: its role in the product, how it is packed, and its C++ type.

    ``code`` is a scalar's in ``struct``, 'P' for a pointer, 'bf16', '128s' for a tensor map, or 'M' for a pointer to
    one; ``ctype`` is then that of the elements, and the role 'mapA' for A. ``role`` is '' while it is not known, a
    number for a constant, and a formula of the sizes for what host code computes from them ("4*K").
    ``at_launch`` is what host code passes, if that is a plain name. The fields of a struct that is passed by value are
    arguments of their own, called "A.width"; ``parameter`` is the index of the parameter that they belong to.
    ``table``: it is an array of pointers, one for each matrix of a batch. ``passed``: the number that host code passes,
    or that is its default, if it is one.
    """

    name: str
    role: str
    code: str
    ctype: str = ""
    at_launch: str = ""
    parameter: int = -1
    table: bool = False
    passed: str = ""


@dataclass(frozen=True)
class Signature:
    """An entry's name and its parameters in order.

    fixed         extents that the source sets: (("M", 256), ...)
    square        the only extent is M, N and K
    tied          two extents that one parameter is, which has the role of the first: "NK" of a kernel for square B
    column_major  C is column-major. The roles are then those of the transposed product Cᵀ = op(B)ᵀ·op(A)ᵀ, which is
                  row-major: the user's A has role B, the user's M has role N
    accumulates   C += A·B without a parameter beta, which is 1
    activation    'relu' where every result is max(0, x), of a user's kernel
    shared        the operand, A or B, of which there is one for all products of a batch
    own_bias      each product of a batch has a bias of its own
    """

    entry: str
    arguments: tuple[Argument, ...]
    fixed: tuple[tuple[str, int], ...] = ()
    square: bool = False
    column_major: bool = False
    accumulates: bool = False
    activation: str = ""
    tied: str = ""
    shared: str = ""
    own_bias: bool = False

    def batch_of(self, problem: Problem, count: int) -> Problem:
        """``count`` products of this size, as the kernel takes them."""
        strides = {f"stride_{self.shared.lower()}": 0} if self.shared else {}
        return problem.with_(batch=count, own_bias=self.own_bias, **strides)

    def tie(self, problem: Problem) -> Problem:
        """The product with equal extents where one parameter is two of them."""
        if not self.tied:
            return problem
        return problem.with_(**{self.tied[1].lower(): getattr(problem, self.tied[0].lower())})

    def pack(
        self,
        problem: Problem,
        a: int,
        b: int,
        c: int,
        bias: int = 0,
        *,
        workspace: int = 0,
        maps: Mapping[str, bytes] | None = None,
    ) -> tuple[bytes, ...]:
        """The raw bytes of each argument for ``problem`` at these device addresses; ``bias`` is 0 if there is none.

        ``maps`` are encoded tensor maps by parameter name; a missing one is passed as zeros.
        """
        values: dict[str, float | bytes] = {
            "M": problem.m, "N": problem.n, "K": problem.k, "alpha": problem.alpha, "beta": problem.beta,
            "A": a, "B": b, "C": c, "lda": problem.lda, "ldb": problem.ldb, "ldc": problem.ldc,
            EVERY_LD: problem.ldc, "bias": bias, "strideA": problem.stride_a, "strideB": problem.stride_b,
            "strideC": problem.stride_c, "batch": problem.batch, "workspace": workspace,
        }  # fmt: skip
        if self.has("D"):  # the output; C is added and not written: where the bias would be, as there is none
            values |= {"D": c, "ldd": problem.ldc, "strideD": problem.stride_c, "C": bias or c}
        for name, role in _MAP_ROLES.items():
            values[role] = (maps or {}).get(name, b"")
        values |= {arg.role: 0 for arg in self.arguments if arg.code == MAP_POINTER or arg.role == SCRATCH}  # at launch
        if self.unknown:
            raise undetermined(self)
        for role in (arg.role for arg in self.arguments if arg.role not in values):
            values[role] = float(role) if is_number(role) else evaluate(role, _sizes(problem))
        if not any("." in arg.name for arg in self.arguments):
            return tuple(self.packed(arg, values[arg.role]) for arg in self.arguments)
        return tuple(self.packed(group[0], values[group[0].role]) if "." not in group[0].name
                     else _packed_struct(group, values) for group in self._parameters())  # fmt: skip

    def _parameters(self) -> list[list[Argument]]:
        """The arguments of each parameter."""
        found: dict[int, list[Argument]] = {}
        for i, arg in enumerate(self.arguments):
            found.setdefault(self.place(i), []).append(arg)
        return list(found.values())

    def place(self, index: int) -> int:
        """The parameter that an argument belongs to; itself, unless it is part of a struct."""
        own = self.arguments[index].parameter
        return index if own < 0 else own

    def bytes_at(self, index: int) -> range:
        """The bytes of its parameter that an argument takes; those of a struct's field are not the first."""
        end = 0
        for i, field in enumerate(self.arguments):
            if self.place(i) != self.place(index):
                continue
            size = struct.calcsize("<" + _packing(field.code))
            start = end + -end % size
            if i == index:
                return range(start, start + size)
            end = start + size
        raise IndexError(index)

    def packed(self, argument: Argument, value: float | bytes) -> bytes:
        """The raw bytes of one argument."""
        if argument.code == BF16_CODE and not isinstance(value, bytes):
            return np.asarray(value, BF16.numpy).tobytes()
        if isinstance(value, float) and value.is_integer() and argument.code in "iIqQhHbB?P":
            value = int(value)
        if isinstance(value, int) and argument.code in "hH" and argument.role.startswith("stride"):  # as C++ does
            value = (value + 2**15) % 2**16 - 2**15 if argument.code == "h" else value % 2**16
        try:
            return pack("<" + _packing(argument.code), value)
        except struct.error:
            raise SignatureError(
                f"{self.entry}: {argument.role}={value!r} does not fit its parameter {argument.name!r}",
                "give that parameter a wider type, such as long long or float",
            ) from None

    def ctype(self, role: str) -> str:
        """The C++ type of the parameter with ``role``, without const and pointer; empty if there is none."""
        return next((arg.ctype for arg in self.arguments if arg.role == role), "")

    def has(self, role: str) -> bool:
        either = (role, EVERY_LD) if role in ("lda", "ldb", "ldc") else (role,)
        return any(arg.role in either for arg in self.arguments)

    def takes_table(self, role: str) -> bool:
        """Whether the parameter with ``role`` is an array of pointers."""
        return any(arg.role == role and arg.table for arg in self.arguments)

    def named(self, role: str) -> str:
        """The user's name of the parameter with ``role``; the role itself if there is none."""
        return next((arg.name for arg in self.arguments if arg.role == role), role)

    def describes(self, role: str) -> bool:
        """Whether a parameter is the matrix ``role``, or a tensor map of it."""
        return self.has(role) or self.has(f"map{role}")

    @property
    def unknown(self) -> tuple[Argument, ...]:
        """The parameters whose role is not known."""
        return tuple(arg for arg in self.arguments if not arg.role)

    @property
    def output(self) -> str:
        """The role of the matrix that is written."""
        return "D" if self.has("D") else "C"

    def transposed(self) -> Signature:
        """The roles of Cᵀ = op(B)ᵀ·op(A)ᵀ: A and B, M and N, and what belongs to them, change places."""
        arguments = tuple(replace(arg, role=with_roles(arg.role, _TRANSPOSED)) for arg in self.arguments)
        fixed = tuple((_TRANSPOSED.get(role, role), extent) for role, extent in self.fixed)
        tied = with_roles(self.tied[:1], _TRANSPOSED) + with_roles(self.tied[1:], _TRANSPOSED)
        return replace(self, arguments=arguments, fixed=fixed, column_major=not self.column_major, tied=tied,
                       shared=with_roles(self.shared, _TRANSPOSED))  # fmt: skip

    def declaration(self) -> str:
        """The roles of the user's own A, B, M and N as ``--signature`` takes them, '?' where one is not known."""
        own = self.transposed() if self.column_major else self
        return ",".join(own.tied if own.tied and arg.role == own.tied[0] else arg.role or "?" for arg in own.arguments)


_TRANSPOSED = {"M": "N", "N": "M", "A": "B", "B": "A", "lda": "ldb", "ldb": "lda", "strideA": "strideB",
               "strideB": "strideA", "mapA": "mapB", "mapB": "mapA"}  # fmt: skip


def signature_hint(signature: Signature, doubtful: str = "") -> str:
    """The ``--signature`` line to complete, filled in as far as it is known."""
    roles = ["?" if not arg.role or arg.role == doubtful else arg.role.removeprefix("map")
             for arg in signature.arguments]  # fmt: skip
    words = "by M, N, K, NK where one is both, lda or a number"
    return f"say what they are, replacing each '?' ({words}): --signature {','.join(roles)}"


def undetermined(signature: Signature) -> SignatureError:
    """The refusal of a kernel whose parameters are not all understood."""
    names = ", ".join(arg.name for arg in signature.unknown)
    verb = "means" if len(signature.unknown) == 1 else "mean"
    return SignatureError(f"{signature.entry}: what {names} {verb} is not clear", signature_hint(signature))


def _packed_struct(fields: list[Argument], values: Mapping[str, float | bytes]) -> bytes:
    """A struct as C++ lays it out: each field on a multiple of its size, the whole on one of the largest."""
    layout, end, widest, packed = "<", 0, 1, []
    for field in fields:
        size = struct.calcsize("<" + _packing(field.code))
        value = values[field.role]
        layout += f"{-end % size}x{_packing(field.code)}"
        end += -end % size + size
        widest = max(widest, size)
        packed.append(int(value) if isinstance(value, float) and field.code in "iIqQhHbB?" else value)
    return pack(f"{layout}{-end % widest}x", *packed)


def is_number(role: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d*)?", role) is not None


def is_formula(role: str) -> bool:
    """Whether ``role`` is arithmetic on the sizes, as "4*K", "(N+3)//4" or "(K//4 if K > 256 else K)"."""
    words = {word for word in re.findall(r"[A-Za-z_]\w*", role) if word not in _OPERATORS and not rounds_up(word)}
    if not words or not words <= _SIZES or role in _SIZES or re.fullmatch(r"[\w\s+*/%()<>=!,-]+", role) is None:
        return False
    try:
        evaluate(role, dict.fromkeys(_SIZES, 240))
    except UsageError:
        return False
    return True


def formula_value(role: str, sizes: Mapping[str, int]) -> int:
    """What a formula of the sizes gives; sizes that are not known are 1."""
    return evaluate(role, dict.fromkeys(_SIZES, 1) | dict(sizes))


def with_roles(role: str, names: Mapping[str, str]) -> str:
    """``role`` under other names; a formula with its sizes under theirs."""
    return re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), role)


_OPERATORS = frozenset(("if", "else", "and", "or", "min", "max", "ceil", "floor"))
_SIZES = frozenset(("M", "N", "K", "lda", "ldb", "ldc", "batch"))


def _sizes(problem: Problem) -> dict[str, int]:
    return {"M": problem.m, "N": problem.n, "K": problem.k, "lda": problem.lda, "ldb": problem.ldb,
            "ldc": problem.ldc, "batch": problem.batch}  # fmt: skip


def _packing(code: str) -> str:
    return "Q" if code in ("P", MAP_POINTER) else code


def entries(code: str) -> list[str]:
    """The names of the ``__global__`` functions in a source text."""
    return [m.group("name") for m in _ENTRY.finditer(strip_comments(code))]


_ENTRY = re.compile(
    r"__global__\s+(?:(?:__launch_bounds__|__cluster_dims__)\s*\((?:[^()]|\([^()]*\))*\)\s*|static\s+|inline\s+)*"
    r"void\s+(?:(?:__launch_bounds__|__cluster_dims__)\s*\((?:[^()]|\([^()]*\))*\)\s*|[A-Z][A-Z0-9_]*\s+)*"
    r"(?P<name>\w+)\s*\((?P<params>[^()]*)\)"
)


def strip_comments(code: str) -> str:
    """The source without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", code, flags=re.S)


def parse_signature(code: str, entry: str, declared: str = "", *, tensor_maps: bool = False) -> Signature:
    """The signature of ``entry`` in ``code``; ``declared`` gives the roles where names do not.

    ``declared`` is a comma-separated list of roles in order, such as ``"A,B,C,M,N,K"``. With ``tensor_maps`` the entry
    may take ``TensorMap map_a, map_b, map_c`` and ``int batch``, and needs no A or B whose map it takes.
    """
    for match in _ENTRY.finditer(strip_comments(code)):
        if match.group("name") == entry:
            texts = [p.strip() for p in match.group("params").split(",") if p.strip()]
            return Signature(entry, _arguments(entry, texts, declared, tensor_maps))
    found = ", ".join(entries(code)) or "none"
    raise SignatureError(f"no __global__ function named {entry!r} in the source", f"entries found: {found}")


def _arguments(entry: str, texts: list[str], declared: str, tensor_maps: bool) -> tuple[Argument, ...]:
    roles = [r.strip() for r in declared.split(",")] if declared else []
    if roles and len(roles) != len(texts):
        raise SignatureError(
            f"the declared signature has {len(roles)} roles, but {entry} takes {len(texts)} parameters: "
            + ", ".join(texts)
        )
    for role in roles:
        if role not in ROLES:
            raise SignatureError(f"unknown role {role!r} in the declared signature", f"roles: {', '.join(ROLES)}")
    arguments = tuple(_argument(entry, text, roles[i] if roles else "", tensor_maps) for i, text in enumerate(texts))
    _check_complete(entry, arguments)
    return arguments


def _argument(entry: str, text: str, role: str, tensor_maps: bool) -> Argument:
    match = re.fullmatch(r"(?P<type>.*?[\s*&])(?:__restrict__\s+)?(?P<name>\w+)(?P<array>\s*\[\s*\])?", text, re.S)
    if match is None:
        raise SignatureError(f"cannot read parameter {text!r} of {entry}")
    name = match.group("name")
    words = re.sub(r"\b(const|volatile|__restrict__|restrict|__grid_constant__)\b", " ", match.group("type"))
    pointer = "*" in words or match.group("array") is not None
    ctype = " ".join(words.replace("*", " ").split())
    if tensor_maps and ctype == _MAP_TYPE and name in _MAP_ROLES and not pointer:
        return Argument(name, _MAP_ROLES[name], f"{MAP_BYTES}s", ctype)
    role = role or _ROLE_OF.get(name.lower(), name if tensor_maps and name in _OWN_ROLES else "")
    if not role:
        raise SignatureError(
            f"{entry}: the meaning of parameter {name!r} is not recognised",
            f"declare the order with --signature, from the roles {', '.join(ROLES)}",
        )
    if pointer != (role in _POINTERS):
        kind, needed = ("a pointer", "a number") if pointer else ("a number", "a pointer")
        raise SignatureError(f"{entry}: parameter {name} is {kind}, but {role} must be {needed}")
    if pointer:
        return Argument(name, role, "P", ctype)
    if ctype not in _SCALARS:
        raise SignatureError(f"{entry}: parameter {name!r} has type {ctype!r}", f"known: {', '.join(_SCALARS)}")
    return Argument(name, role, _SCALARS[ctype], ctype)


def _check_complete(entry: str, arguments: tuple[Argument, ...]) -> None:
    seen: set[str] = set()
    for argument in arguments:
        if argument.role in seen:
            raise SignatureError(f"{entry} has two parameters that mean {argument.role}")
        seen.add(argument.role)
    missing = [role for role in ("A", "B", "C") if role not in seen and (role == "C" or f"map{role}" not in seen)]
    if missing or not seen & {"M", "N", "K"}:
        raise SignatureError(
            f"{entry} is not a matrix product: no parameter for {', '.join(missing) or 'M, N or K'}",
            "a usual signature is (M, N, K, alpha, A, B, beta, C) or (A, B, C, M, N, K)",
        )
