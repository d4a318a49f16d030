"""What device code needs of headers that NVRTC does not have, in one header that is included before the file.

Includes of host headers are blanked. What nvcc's host headers define for every file is in ``stubs/prelude.h``. Of
``std``, what the kept code names comes from ``stubs/std.h``, or from libcu++ if that is not enough: libcu++ has
everything and takes seconds to compile. The ladder's rungs get none of this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from gemmsmith.userfile.host.map_constants import enum_declarations

PRELUDE = "gemmsmith_prelude.h"
_STD_NAME = re.compile(r"\bstd\s*::\s*(\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_USING = re.compile(r"\busing\s+namespace\s+(?:::\s*)?([\w\s:]+?)\s*;")
_ALIAS = re.compile(r"\bnamespace\s+(\w+)\s*=")
_TORCH = re.compile(r"(?:torch|ATen|c10|pybind11|THC?)/.*")
_CUB = re.compile(r"\bcub\s*::\s*(\w+)")
_ALREADY = frozenset(
    ["move", "forward", "initializer_list", "size_t", "ptrdiff_t", "nullptr_t"]
)  # NVRTC's own, and the prelude's

_LIBCUXX = {
    "tuple": "tuple make_tuple tie get tuple_size tuple_element tuple_cat apply tuple_size_v tuple_element_t ignore "
             "forward_as_tuple",
    "utility": "index_sequence make_index_sequence integer_sequence make_integer_sequence index_sequence_for as_const "
               "in_place piecewise_construct",
    "complex": "complex real imag conj norm polar arg",
    "atomic": "atomic atomic_ref memory_order memory_order_relaxed memory_order_acquire memory_order_release "
              "memory_order_acq_rel memory_order_seq_cst atomic_thread_fence",
    "optional": "optional nullopt make_optional",
    "variant": "variant visit monostate holds_alternative",
    "span": "span dynamic_extent",
    "mdspan": "mdspan extents dextents layout_right layout_left layout_stride",
    "bit": "bit_cast popcount countl_zero countr_zero bit_ceil bit_floor has_single_bit bit_width rotl rotr endian",
    "functional": "invoke reference_wrapper ref cref bit_and bit_or bit_xor logical_and logical_or less_equal "
                  "greater_equal equal_to not_equal_to divides modulus negate hash identity",
    "type_traits": "invoke_result invoke_result_t result_of is_invocable is_invocable_v is_function is_function_v "
                   "is_member_pointer is_constructible is_constructible_v is_default_constructible is_assignable "
                   "is_trivial is_trivial_v is_standard_layout is_pod is_empty is_empty_v is_final is_scalar "
                   "is_scalar_v is_null_pointer is_object is_fundamental common_type common_type_t aligned_storage "
                   "aligned_storage_t alignment_of rank extent extent_v is_lvalue_reference is_lvalue_reference_v "
                   "is_rvalue_reference add_lvalue_reference add_lvalue_reference_t add_rvalue_reference "
                   "is_constant_evaluated type_identity type_identity_t is_nothrow_move_constructible "
                   "is_trivially_constructible is_trivially_destructible is_abstract is_polymorphic is_union "
                   "is_volatile add_cv add_volatile remove_all_extents remove_volatile_t",
    "numeric": "accumulate gcd lcm midpoint inner_product iota reduce",
    "algorithm": "fill fill_n copy copy_n sort find find_if lower_bound upper_bound minmax min_element max_element "
                 "for_each transform equal all_of any_of none_of reverse rotate",
    "iterator": "begin end next prev advance distance iterator_traits random_access_iterator_tag data",
    "cstddef": "byte to_integer max_align_t",
    "concepts": "same_as integral floating_point convertible_to derived_from invocable signed_integral "
                "unsigned_integral",
    "chrono": "chrono",
    "string_view": "string_view",
    "expected": "expected unexpected",
}  # fmt: skip
_HEADER_OF = {name: header for header, names in _LIBCUXX.items() for name in names.split()}
_USUAL = (
    "type_traits",
    "limits",
    "utility",
    "tuple",
    "array",
    "algorithm",
    "functional",
    "cmath",
)  # Functions that NVRTC has at global scope; std.h repeats them in std.
_MATH = (
    "abs fabs sqrt exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh floor ceil "
    "round trunc rint nearbyint fma fmin fmax fmod erf erfc cbrt hypot copysign isnan isinf isfinite lround ldexp "
    "tgamma lgamma remainder memcpy memset printf signbit fdim asinh acosh atanh scalbn frexp modf logb ilogb "
    "nextafter llround lrint llrint labs llabs sqrtf expf exp2f expm1f logf log2f log10f log1pf powf sinf cosf tanf "
    "asinf acosf atanf atan2f sinhf coshf tanhf floorf ceilf roundf truncf rintf nearbyintf fmaf fmaxf fminf fmodf "
    "fabsf erff erfcf cbrtf hypotf copysignf lroundf ldexpf"
)

# As the bundle writes includes; headers of C++ libraries, by the names that tell of their use.
_CUDA_INCLUDE = re.compile(r"^#include <[^>\n]+>$", re.M)
_COSTLY = {"cuda/": r"\b(?:cuda|nv)\s*::|\bnamespace\s+cuda\b", "cooperative_groups": r"\bcooperative_groups\b",
           "cub/": r"\bcub\b"}  # fmt: skip

# Words that are more often a variable than a name of std.
_COMMON = frozenset(
    ("min", "max", "data", "get", "end", "begin", "real", "ref", "copy", "size", "next", "prev", "find", "arg", "norm",
     "fill", "rank", "extent", "hash", "apply", "less", "greater", "plus", "minus", "byte", "negate", "reduce",
     "rotate", "reverse", "equal", "span", "identity", "transform", "tie")
)  # fmt: skip

# Host libraries include these headers, and kernels rely on it.
_ELEMENTS = {
    "cuda_fp16.h": re.compile(r"\b__half2?\b|\bhalf2\b|\bhalf\s*[*&]|[<(,]\s*half\s*[>,)]"),
    "cuda_bf16.h": re.compile(r"\b(?:__)?nv_bfloat16"),
    "cuComplex.h": re.compile(r"\bcu(?:Float|Double)?Complex\b"),
    "cooperative_groups.h": re.compile(r"\bcooperative_groups\s*::"),  # which older libraries include themselves
}
# Operators that CUB had before CUDA 13.
_CUB_OPERATORS = """#include <cub/version.cuh>
#if CUB_VERSION >= 300000
namespace cub {
struct Sum { template <class T> __device__ T operator()(const T& a, const T& b) const { return a + b; } };
struct Max { template <class T> __device__ T operator()(const T& a, const T& b) const { return b > a ? b : a; } };
struct Min { template <class T> __device__ T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
}
#endif
"""
# Macros for its namespaces that CUDA's C++ library had before CUDA 13, and that copies of its code still use.
_LIBCUXX_MACROS = """#include <cuda/std/version>
#ifndef _CUDA_VSTD
#define _CUDA_VSTD ::cuda::std
#endif
#ifndef _CUDA_VPTX
#define _CUDA_VPTX ::cuda::ptx
#endif
"""
# Types of host APIs that kernels take, and limits that g++ defines itself.
_HOST_TYPES = {
    "CUtensorMap": "typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;\n",
    "CUtexObject": "typedef unsigned long long CUtexObject;\n",
    "CUsurfObject": "typedef unsigned long long CUsurfObject;\n",
    "CUdeviceptr": "typedef unsigned long long CUdeviceptr;\n",
    "cufftComplex": "typedef float2 cufftComplex;\n",
    "cufftDoubleComplex": "typedef double2 cufftDoubleComplex;\n",
    "cufftReal": "typedef float cufftReal;\n",
    **{f"u_int{n}_t": f"typedef uint{n}_t u_int{n}_t;\n" for n in (8, 16, 32, 64)},  # of sys/types.h
    "__u?int(?:8|16|32|64)_t": "".join(
        f"typedef {kind}{n}_t __{kind}{n}_t;\n" for kind in ("int", "uint") for n in (8, 16, 32, 64)
    ),  # of glibc
    **{f"__{kind}_{end}__": f"#ifndef __{kind}_{end}__\n#define __{kind}_{end}__ {kind}_{end}\n#endif\n"
       for kind in ("FLT", "DBL") for end in ("MAX", "MIN", "EPSILON")},
    "__INT_MAX__": "#ifndef __INT_MAX__\n#define __INT_MAX__ INT_MAX\n#endif\n",
    "__LONG_LONG_MAX__": "#ifndef __LONG_LONG_MAX__\n#define __LONG_LONG_MAX__ LLONG_MAX\n#endif\n",
}  # fmt: skip
# Functions of the device runtime that NVRTC does not declare: programmatic dependent launch.
_RUNTIME = {
    "cudaGridDependencySynchronize": "griddepcontrol.wait;",
    "cudaTriggerProgrammaticLaunchCompletion": "griddepcontrol.launch_dependents;",
}
_NO_MEMBER = re.compile(r'namespace "std" has no member "(\w+)"|identifier "(\w+)" is undefined')


def prelude(texts: Iterable[str], includes: Iterable[str] = (), declared: Iterable[str] = (), libcuxx: bool = True,
            lacks: Iterable[str] = ()) -> str:  # fmt: skip
    """The header for kept code ``texts``, which include the headers ``includes`` and declare the names ``declared``.

    ``libcuxx``: whether CUDA's C++ library is installed. ``lacks``: what a compiler missed before (``lacking``).
    """
    texts, lacks = tuple(texts), sorted(lacks)
    whole = "\n".join((*texts, *lacks))
    parts = [_stub("prelude.h")]
    own = set(declared)
    types = _HOST_TYPES | enum_declarations()
    needed = (
        text for name, text in types.items() if own.isdisjoint(name.split("|")) and re.search(rf"\b(?:{name})\b", whole)
    )
    parts += needed
    parts += [f"#include <{header}>\n" for header, words in _ELEMENTS.items() if words.search(whole)]
    parts += [f'static __device__ __forceinline__ void {name}() {{ asm volatile("{code}" ::: "memory"); }}\n'
              for name, code in _RUNTIME.items() if name not in own and re.search(rf"\b{name}\b", whole)]  # fmt: skip
    of_libraries = {name for name in _STD_NAME.findall(" ".join(lacks)) if name in _HEADER_OF}
    parts.append(_std("\n".join(texts), own, libcuxx))
    parts += [f"{_if_there(f'cuda/std/{_HEADER_OF[name]}')}namespace std {{ using ::cuda::std::{name}; }}\n"
              for name in sorted(of_libraries) if libcuxx]  # fmt: skip
    if re.search(r"\bregister\b", whole):  # C++17 has no such storage class, and older kernels use it
        parts.append("#define register\n")
    if any(_TORCH.fullmatch(name) for name in includes):
        parts.append(_stub("torch.h"))
    if libcuxx and re.search(r"\b_CUDA_V(?:STD|PTX)\b", whole):
        parts.append(_LIBCUXX_MACROS)
    if libcuxx and any(name == "cub/cub.cuh" or name.startswith("cub/") for name in includes):
        used = set(_CUB.findall(whole))
        if re.search(r"\busing\s+namespace\s+cub\b", whole):
            used |= set(re.findall(r"\b(?:Block|Warp)[A-Z]\w+(?=\s*<)", whole))
        parts += sorted({_cub_include(name) for name in used})
        parts += [_CUB_OPERATORS] if used & {"Max", "Min", "Sum"} else []
    parts += _namespaces(whole)
    return "".join(parts)


def lacking(log: str) -> frozenset[str]:
    """What a compiler's log says is missing and the prelude can have, written as code that names it."""
    found = _NO_MEMBER.findall(log)
    of_std = [f"std::{name}" for name, _ in found if name in _HEADER_OF]
    return frozenset(of_std + [name for _, name in found if name in _RUNTIME])


def without_unused_includes(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts without includes of C++ libraries that no text names any more: those take seconds to compile."""
    whole = _CUDA_INCLUDE.sub("", "\n".join(texts.values()))
    unused = [header for header, names in _COSTLY.items() if not re.search(names, whole)]
    if not unused:
        return dict(texts)
    pattern = re.compile(rf"^#include <(?:{'|'.join(unused)})[^>\n]*>$", re.M)
    return {name: pattern.sub("", text) for name, text in texts.items()}


def needs_cpp20(texts: Iterable[str]) -> bool:
    """Whether a text uses what C++17 does not have."""
    pattern = re.compile(
        r"\b(?:concept\s+\w+\s*=|requires\s*[({]|requires\s+\w|consteval\b|constinit\b)|\[[&=\w\s,]*\]\s*<"
    )
    return any(pattern.search(text) for text in texts)


def _std(whole: str, declared: set[str], libcuxx: bool) -> str:
    names = set(_STD_NAME.findall(whole))
    if re.search(r"\busing\s+namespace\s+std\b", whole):
        # Functions that NVRTC has at global scope need no std; a name that the file declares is most likely that.
        known = (_small_names() | _HEADER_OF.keys()) - set(_MATH.split()) - _COMMON
        names |= (set(_WORD.findall(whole)) & known) - declared
    names -= _ALREADY
    large = sorted({_HEADER_OF[name] for name in names - _small_names() if name in _HEADER_OF})
    if large and libcuxx:
        headers = dict.fromkeys((*_USUAL, *large))
        including = "".join(_if_there(f"cuda/std/{header}") for header in headers)  # older releases lack some
        math = " ".join(f"using ::{name};" for name in _MATH.split() if name in names)
        return f"{including}namespace std {{ using namespace ::cuda::std; {math} }}\n"
    return _stub("std.h") if names & _small_names() else ""


def _cub_include(name: str) -> str:
    """The header of ``cub::BlockReduce``; blank where NVRTC has none of that name."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    folder = snake.split("_")[0]
    if folder not in ("block", "warp"):
        return ""
    path = f"cub/{folder}/{snake}.cuh"
    return _if_there(path)


def _if_there(path: str) -> str:
    return f"#if __has_include(<{path}>)\n#include <{path}>\n#endif\n"


def _namespaces(whole: str) -> list[str]:
    """Empty namespaces for ``using namespace`` of those that only host code fills."""
    aliases = set(_ALIAS.findall(whole))
    found = []
    for name in sorted(set(_USING.findall(whole))):
        parts = re.sub(r"\s", "", name).split("::")
        if parts[0] not in aliases and all(parts):
            found.append(" ".join(f"namespace {part} {{" for part in parts) + "}" * len(parts) + "\n")
    return found


@cache
def _stub(name: str) -> str:
    return files("gemmsmith.userfile").joinpath("stubs", name).read_text(encoding="utf-8")


@cache
def _small_names() -> frozenset[str]:
    """Every name that ``std.h`` declares."""
    declared = r"\bstruct (\w+)|\busing (\w+) =|\busing ::(\w+)|inline constexpr bool (\w+)|GS_FN [^(]*?(\w+)\("
    found = re.findall(declared, _stub("std.h"))
    return frozenset(name for row in found for name in row if name) | {"declval"}
