"""A parameter of a user's kernel as it is written, before its meaning is known; refused where no product has such."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.element_types import ParameterType, parameter_type, vector_width
from gemmsmith.kernel.signature import MAP_BYTES, MAP_POINTER


@dataclass(frozen=True)
class MapParameter:
    """A tensor map among a kernel's parameters: the matrix that it describes, and the type of its elements."""

    operand: str
    ctype: str


@dataclass(frozen=True)
class WrittenParameter:
    """One parameter, or a field of a struct that is one."""

    name: str
    type: ParameterType
    at_launch: str  # the argument in host code, if it is a plain name
    place: int = -1  # of the struct that it is a field of, among the kernel's parameters
    map: str = ""  # the matrix that it is a tensor map of: A, B or C

    @property
    def is_pointer(self) -> bool:
        return self.type.stars > 0 and not self.map

    @property
    def code(self) -> str:
        if self.map:
            return MAP_POINTER if self.type.stars else f"{MAP_BYTES}s"
        return "P" if self.is_pointer else self.type.scalar_code


def written_parameter(
    entry: str, kind: str, name: str, at_launch: str, aliases: Mapping[str, str], place: int,
    maps: Mapping[str, MapParameter],
) -> WrittenParameter:  # fmt: skip
    """The parameter ``name`` of type ``kind``; ``at_launch`` is what host code passes for it."""
    known = parameter_type(kind, aliases)
    if name in maps:
        return WrittenParameter(name, replace(known, name=maps[name].ctype), "", place, maps[name].operand)
    if known.stars > 2:
        raise SignatureError(f"{entry}: {name} points to arrays of pointers ({kind.strip()}), which is not supported",
                             "gemmsmith.launch runs the kernel with arguments of your own")  # fmt: skip
    made = next((word for word in ("texture", "surface") if f"{word}object" in kind.lower()), "")
    if made and not known.stars:
        raise SignatureError(
            f"{entry}: {name} is a {kind.strip()}, and check passes only pointers and numbers",
            f"gemmsmith.launch runs the kernel with gemmsmith.{made}(array); on the command line: --args "
            f"'{name}={made}(rand(64,64,f32)), ...' with --grid and --block",
        )
    if "tensormap" in f"{kind}{known.name}".lower().replace("_", ""):
        raise SignatureError(
            f"{entry}: {name} is a tensor map, and the host code that encodes it was not found or not understood",
            f"gemmsmith.launch runs the kernel with gemmsmith.tensor_map(array, box=…); on the command line: "
            f"--args '{name}=tensor_map(randn(256,64,bf16), box=(64,64), swizzle=128), ...' with --grid and --block",
        )
    if not known.stars and vector_width(known.name) > 1 and re.match(r"float|double|half|(?:__)?nv_bfloat", known.name):
        raise SignatureError(
            f"{entry}: {name} is a {kind.strip()}, and check does not judge complex products",
            "gemmsmith.launch runs the kernel with arguments of your own",
        )
    if known.reference or (not known.stars and not known.scalar_code):
        raise SignatureError(
            f"{entry}: {name} is passed as {kind.strip()}, which is neither a pointer nor a number",
            "gemmsmith.launch takes a struct as a tuple of its members, in order; on the command line: --args "
            f"'{name}=struct(tensor_map(randn(256,64,bf16), box=(64,64)), zeros(256,256,f32), 256:i32, ...), ...' with "
            "--grid and --block",
        )
    plain = at_launch.replace("_", "a").isalnum()
    return WrittenParameter(name, known, at_launch if plain else "", place)
