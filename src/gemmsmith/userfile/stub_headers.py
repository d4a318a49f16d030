"""Stub host headers, so that a ``.cu`` file with a ``main`` compiles with NVRTC unchanged.

NVRTC compiles device code only and has no host C++ library. A user's file may include ``<cstdio>`` or
``<cublas_v2.h>`` for its own ``main``; those names resolve to nearly empty headers. Names that kernels use from them
are defined (``uint``, fixed-width integers, ``FLT_MAX``, ``INT_MAX``); ``printf`` and ``assert`` are NVRTC's own. The
ladder's rungs get no stubs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# nvcc includes host headers before every file, and kernels rely on the names they define. 64-bit types are spelled as
# in cuda_pipeline_helpers.h, which declares them itself for NVRTC.
PRELUDE = "gemmsmith_prelude.h"
_PRELUDE_TEXT = """#pragma once
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
namespace std {
using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t; using ::int32_t; using ::uint32_t;
using ::int64_t; using ::uint64_t; using ::intptr_t; using ::uintptr_t; using ::size_t;
}
"""

_FLOAT = """#pragma once
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
"""

_LIMITS = """#pragma once
#define CHAR_BIT 8
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295U
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-LONG_MAX - 1L)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
"""

_EMPTY = (
    "algorithm array assert.h cassert chrono cmath cstddef cstdint cstdio cstdlib cstring ctime exception fstream "
    "functional iomanip iostream map math.h memory numeric random sstream stddef.h stdexcept stdint.h stdio.h stdlib.h "
    "string string.h sys/time.h time.h unistd.h vector "
    "cublas.h cublas_v2.h cublasLt.h cuda_profiler_api.h curand.h cusolverDn.h helper_cuda.h helper_functions.h "
    "nvToolsExt.h nvtx3/nvToolsExt.h omp.h"
)

# Of the driver API, device code uses the tensor map.
_DRIVER = """#pragma once
typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;
"""

STUB_HEADERS: dict[str, str] = {
    **dict.fromkeys(_EMPTY.split(), "#pragma once\n"),
    "cuda.h": _DRIVER,
    "cfloat": _FLOAT,
    "float.h": _FLOAT,
    "climits": _LIMITS,
    "limits.h": _LIMITS,
}

_ANY_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.M)


def stubs_for(texts: Iterable[str], present: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The prelude, and a stub for each host header that ``texts`` include and ``present`` lacks."""
    wanted = {name for text in texts for name in _ANY_INCLUDE.findall(text)}
    names = sorted((wanted & STUB_HEADERS.keys()) - set(present))
    return ((PRELUDE, _PRELUDE_TEXT), *((name, STUB_HEADERS[name]) for name in names))
