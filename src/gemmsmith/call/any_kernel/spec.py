"""Arguments in words: 'x=randn(65536, f32), out=zeros(64, f32), n=65536'. Read without eval.

Each argument is NAME=VALUE, or VALUE alone. A value is an array (zeros, ones, empty, arange, randn, rand, randint,
full, or a .npy file), a texture of one ('texture(rand(64, 64, f32), filter=linear)'), a tensor map of one
('tensor_map(randn(256, 64, bf16), box=(64, 64), swizzle=128)'), a number, a number with its type (3:i32, 1.5:f32), a
struct by value with its fields ('struct(zeros(64, f32), 8, 4:i64)'), or null. Sizes are expressions, which may use the
names of integers before them: 'n=1024, x=rand(2*n, f16)'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.declaration import split_list
from gemmsmith.call.any_kernel.tensor_maps import TensorMapOf, tensor_map
from gemmsmith.call.any_kernel.textures import Texture, surface, texture
from gemmsmith.call.any_kernel.types import dtype_named, is_dtype_name
from gemmsmith.errors import UsageError
from gemmsmith.kernel.expressions import evaluate

_NAMED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", re.S)
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\((.*)\)", re.S)
_TYPED = re.compile(r"(.+?):\s*([A-Za-z]\w*)", re.S)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?f?|[+-]?(inf|nan)", re.I)
_LONGEST = 4000  # characters; the reader of expressions is recursive
_MOST_BYTES = 1 << 34
_POISON = 0xFF  # every byte of empty(): NaN in floating-point types
_FUNCTIONS = ("zeros", "ones", "empty", "arange", "randn", "rand", "randint", "full")
_RANDOM = ("randn", "rand", "randint")
_TEXTURE_OPTIONS = ("filter", "address", "normalized", "read", "border", "resource", "channels", "layered")
_MAP_OPTIONS = ("box", "swizzle", "interleave", "fill", "element_strides", "im2col", "dtype", "shape", "strides")
_OBJECTS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "texture": (texture, _TEXTURE_OPTIONS), "surface": (surface, _TEXTURE_OPTIONS[-2:]),
    "tensor_map": (tensor_map, _MAP_OPTIONS),
}  # fmt: skip
_NUMBERS = ("channels", "border", "box", "swizzle", "interleave", "element_strides", "im2col", "shape", "strides")
_BLANK = ("zeros", "empty")
Array = NDArray[Any]


@dataclass(frozen=True)
class ArraySpec:
    """An array in words: the function that makes it, its numbers (bounds, or a value), shape and type."""

    function: str
    numbers: tuple[float, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def make(self, seed: int, fill: str) -> Array:
        if fill == "integers" and self.function in ("randn", "rand"):
            return _small_integers(self, seed)
        if fill == "poison" and self.function in _BLANK:
            return _poison(self)
        return _MAKERS[self.function](self, seed)


@dataclass(frozen=True)
class ObjectSpec:
    """A texture, surface or tensor map in words: of which array, and its options."""

    word: str
    array: Any
    options: tuple[tuple[str, Any], ...]

    def make(self, seed: int, fill: str) -> Texture | TensorMapOf:
        values = self.array.make(seed, fill) if isinstance(self.array, ArraySpec) else self.array
        made: Texture | TensorMapOf = _OBJECTS[self.word][0](values, **dict(self.options))
        return made


def _made(value: Any, seed: int, fill: str) -> Any:
    """A value as it is passed; the fields of a struct have seeds of their own."""
    if isinstance(value, tuple):
        return tuple(_made(each, seed + number, fill) for number, each in enumerate(value))
    return value.make(seed, fill) if isinstance(value, (ArraySpec, ObjectSpec)) else value


def _arrays_in(value: Any) -> Iterator[ArraySpec]:
    if isinstance(value, tuple):
        for each in value:
            yield from _arrays_in(each)
    elif isinstance(value, ObjectSpec):
        yield from _arrays_in(value.array)
    elif isinstance(value, ArraySpec):
        yield value


@dataclass(frozen=True)
class ArgumentSpec:
    """One argument: its name ('' if it has none) and its value, or how it is made."""

    name: str
    text: str
    value: Any

    def make(self, seed: int, fill: str) -> Any:
        return _made(self.value, seed, fill)

    def is_made_by(self, functions: tuple[str, ...]) -> bool:
        return any(part.function in functions for part in _arrays_in(self.value))


@dataclass(frozen=True)
class ArgumentList:
    """The arguments of a launch in words; ``values`` makes them, the same ones every time for the same seed."""

    items: tuple[ArgumentSpec, ...]

    def values(self, seed: int = 0, fill: str = "given") -> Mapping[str, Any] | list[Any]:
        """The values by name, or in order if they have none.

        fill  'given': as described; 'integers': small integers in place of randn and rand; 'poison': NaN in place of
              zeros, to see whether the kernel writes every element without reading it
        """
        made = [item.make(seed + 1000 * number, fill) for number, item in enumerate(self.items)]
        names = [item.name for item in self.items]
        return dict(zip(names, made, strict=True)) if all(names) and names else made

    @property
    def is_random(self) -> bool:
        return any(item.is_made_by(_RANDOM) for item in self.items)

    @property
    def has_random_reals(self) -> bool:
        return any(item.is_made_by(("randn", "rand")) for item in self.items)

    @property
    def has_blanks(self) -> bool:
        return any(item.is_made_by(_BLANK) for item in self.items)

    @property
    def integers(self) -> dict[str, int]:
        """Named integers, which grids may use."""
        return {item.name: int(item.value) for item in self.items if item.name and _is_integer(item.value)}


def parse_arguments(text: str) -> ArgumentList:
    """Read a list of arguments; raises ``UsageError`` with the part that is not understood."""
    if len(text) > _LONGEST:
        raise UsageError(f"the arguments have {len(text):,} characters; {_LONGEST} are the most")
    items: list[ArgumentSpec] = []
    for part in split_list(text):
        match = _NAMED.fullmatch(part)
        name, value = (match.group(1), match.group(2).strip()) if match else ("", part)
        if name and name in {item.name for item in items}:
            raise UsageError(f"{name} is given twice in the arguments")
        known = ArgumentList(tuple(items)).integers
        items.append(ArgumentSpec(name, part, _value(part, value, known)))
    if any(item.name for item in items) and not all(item.name for item in items):
        bare = next(item.text for item in items if not item.name)
        raise UsageError(f"the argument {bare!r} has no name, and others have", "name all of them, or none")
    return ArgumentList(tuple(items))


def _value(part: str, text: str, known: Mapping[str, int]) -> Any:
    if text in ("null", "nullptr", "NULL", "None"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if text.strip("'\"").endswith(".npy"):
        return _file(Path(text.strip("'\"")))
    call = _CALL.fullmatch(text)
    if call and call.group(1) in _FUNCTIONS:
        return _array(part, call.group(1), split_list(call.group(2)), known)
    if call and call.group(1) in _OBJECTS:
        return _object(part, call.group(1), split_list(call.group(2)), known)
    if call and call.group(1) == "struct":
        return tuple(_value(part, word, known) for word in split_list(call.group(2)))
    typed = _TYPED.fullmatch(text)
    if typed:
        number = _number(part, typed.group(1).strip(), known)
        dtype = dtype_named(typed.group(2))
        if dtype.kind in "iu" and (isinstance(number, float) or not _in_range(number, dtype)):
            raise UsageError(f"{part!r}: {typed.group(1).strip()} does not fit {typed.group(2)}")
        return np.array(number).astype(dtype)[()]
    return _number(part, text, known)


def _object(part: str, word: str, words: list[str], known: Mapping[str, int]) -> ObjectSpec:
    """texture(ARRAY, filter=linear, address=wrap, normalized): options without a value are true."""
    array = _value(part, words[0], known) if words else None
    if not isinstance(array, (ArraySpec, np.ndarray)):
        raise UsageError(f"{part!r} has no array", f"write {word}(rand(64,64,f32), ...) or {word}(FILE.npy, ...)")
    options: dict[str, Any] = {}
    for each in words[1:]:
        name, _, text = (piece.strip() for piece in each.partition("="))
        wanted = _OBJECTS[word][1]
        if name not in wanted:
            raise UsageError(f"{part!r}: a {word} has no option {name!r}", f"its options: {', '.join(wanted)}")
        options[name] = _numbers(part, text, known) if name in _NUMBERS else text if text not in ("", "true") else True
    made = ObjectSpec(word, array, tuple(options.items()))
    made.make(0, "given")  # wrong options are told at once
    return made


def _numbers(part: str, text: str, known: Mapping[str, int]) -> Any:
    """A number, or numbers in parentheses, which may be nested."""
    if not (text.startswith("(") and text.endswith(")")):
        return _number(part, text, known)
    inner = split_list(text[1:-1])
    return tuple(_numbers(part, each, known) for each in inner)


def _in_range(number: int, dtype: np.dtype[Any]) -> bool:
    return int(np.iinfo(dtype).min) <= number <= int(np.iinfo(dtype).max)


def _number(part: str, text: str, known: Mapping[str, int]) -> Any:
    if _FLOAT.fullmatch(text) and not re.fullmatch(r"[+-]?\d+", text):
        return float(text.rstrip("fF") if text[-1:] in "fF" and "inf" not in text.lower() else text)
    try:
        return evaluate(text, known)
    except UsageError as error:
        raise UsageError(
            f"the argument {part!r} is not understood: {error.message}",
            f"write a number, {', '.join(f'{name}(...)' for name in _FUNCTIONS)}, FILE.npy or null",
        ) from None


def _array(part: str, function: str, words: list[str], known: Mapping[str, int]) -> ArraySpec:
    dtype = np.dtype(np.int32 if function in ("arange", "randint") else np.float32)
    if words and is_dtype_name(words[-1]):
        dtype = dtype_named(words.pop())
    elif words and re.fullmatch(r"[A-Za-z_]\w*", words[-1]) and words[-1] not in known:
        dtype_named(words[-1])  # raises with the types that there are
    leading = {"randint": 2, "full": 1}.get(function, 0)
    if len(words) <= leading:
        form = {"randint": "randint(LOW, HIGH, SIZE, TYPE)", "full": "full(VALUE, SIZE, TYPE)"}
        raise UsageError(f"{part!r} has no size", f"write {form.get(function, f'{function}(SIZE, TYPE)')}")
    numbers = tuple(_number(part, word, known) for word in words[:leading])
    shape = tuple(_extent(part, word, known) for word in words[leading:])
    if function == "arange" and len(shape) > 1:
        raise UsageError(f"{part!r}: arange has one size", "write arange(SIZE, TYPE)")
    if int(np.prod([int(s) for s in shape], dtype=object)) * dtype.itemsize > _MOST_BYTES:
        raise UsageError(f"{part!r} is larger than {_MOST_BYTES >> 30} GiB")
    if function == "randint" and not numbers[0] < numbers[1]:
        raise UsageError(f"{part!r}: {numbers[0]} is not below {numbers[1]}", "write randint(LOW, HIGH, SIZE, TYPE)")
    return ArraySpec(function, numbers, shape, dtype)


def _extent(part: str, text: str, known: Mapping[str, int]) -> int:
    number = _number(part, text, known)
    if isinstance(number, float) or number < 0:
        raise UsageError(f"{part!r}: {text} is not a size")
    return int(number)


def _file(path: Path) -> Array:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{path} cannot be read as an array: {error}", "save it with numpy.save") from None


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _small_integers(spec: ArraySpec, seed: int) -> Array:
    """Numbers whose sums are exact: integers from -4 to 4 for randn, eighths from 1/8 to 7/8 for rand."""
    if spec.function == "rand":
        return (_random(seed).integers(1, 8, spec.shape) / 8).astype(spec.dtype)
    return _random(seed).integers(-4, 5, spec.shape).astype(spec.dtype)


def _poison(spec: ArraySpec) -> Array:
    size = int(np.prod(spec.shape, dtype=np.int64)) * spec.dtype.itemsize
    fill = 1 if spec.dtype.kind == "b" else _POISON
    return np.full(size, fill, np.uint8).view(spec.dtype).reshape(spec.shape)


def _integers(spec: ArraySpec, seed: int) -> Array:
    low, high = (int(number) for number in spec.numbers)
    return _random(seed).integers(low, high, spec.shape).astype(spec.dtype)


_MAKERS: dict[str, Callable[[ArraySpec, int], Array]] = {
    "zeros": lambda spec, _: np.zeros(spec.shape, spec.dtype),
    "ones": lambda spec, _: np.ones(spec.shape, spec.dtype),
    "empty": lambda spec, _: _poison(spec),
    "arange": lambda spec, _: np.arange(spec.shape[0]).astype(spec.dtype),
    "randn": lambda spec, seed: _random(seed).standard_normal(spec.shape, np.float32).astype(spec.dtype),
    "rand": lambda spec, seed: _random(seed).random(spec.shape, np.float32).astype(spec.dtype),
    "randint": _integers,
    "full": lambda spec, _: np.full(spec.shape, spec.numbers[0]).astype(spec.dtype),
}
