"""What is printed of the compiler's log: errors with their lines, without the warnings of other headers."""

from __future__ import annotations

from gemmsmith.compile.compile_failure import errors_alone

LOG = """lib/climits(31): warning #47-D: incompatible redefinition of macro "SCHAR_MIN"
  #  define SCHAR_MIN (-128)
            ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

gemm.cu(7): error: identifier "x" is undefined
      c[i] = x;
             ^

lib/climits(42): warning #47-D: incompatible redefinition of macro "SHRT_MIN"
  #  define SHRT_MIN  (-SHRT_MAX - 1)
            ^

gemm.cu(9): catastrophic error: cannot open source file "nowhere.h"
  #include "nowhere.h"
                      ^

2 errors detected in the compilation of "gemm.cu".
"""


def test_warnings_and_remarks_are_left_out() -> None:
    kept = errors_alone(LOG)
    assert not any(word in kept for word in ("SCHAR_MIN", "SHRT_MIN", "Remark"))
    assert 'gemm.cu(7): error: identifier "x" is undefined\n      c[i] = x;\n             ^' in kept
    assert "nowhere.h" in kept
    assert "2 errors detected" in kept


def test_a_log_of_another_form_is_kept_whole() -> None:
    text = "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)"
    assert errors_alone(text) == text
