"""Formulas as text: exact arithmetic, conditions, the words of an error, and no code that runs."""

from __future__ import annotations

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.kernel.expressions import Formulas, evaluate, evaluate_c, holds, with_arithmetic

NAMES = {"BM": 128, "BN": 64, "TM": 8, "TN": 4, "WM": 96, "ZERO": 0}


@pytest.mark.parametrize(("text", "value"), [
    ("BM*BN/(TM*TN)", 256), ("4*(BM+BN)*8", 6144), ("ceil(BM/WM)", 2), ("ceil(BM/BN)", 2), ("floor(BM/WM)", 1),
    ("BM//WM", 1), ("BM/WM*WM", 128), ("32*(BM/WM)*(WM/BN)", 64), ("-BM % WM", 64), ("BM << 2", 512), ("BM >> 3", 16),
    ("min(BM, BN, 7)", 7), ("max(BM, BN)", 128), ("gcd(BM, WM)", 32), ("select(2, BM, BN, TM)", 64),
    ("BM if BN > 64 else BN", 64), ("CEIL_DIV(BM + 1, BN)", 3), ("cdiv(BM, 100)", 2),
    ("1 if BM and not_zero else 2", None), ("(BM > BN) + (BM < BN)", 1), ("1 if 64 <= BN < BM else 0", 1),
])  # fmt: skip
def test_values(text: str, value: int | None) -> None:
    """Division is exact: what a later factor makes whole is whole."""
    if value is None:
        with pytest.raises(UsageError, match="unknown name 'not_zero' \\(known: BM, BN, TM, TN, WM, ZERO\\)"):
            evaluate(text, NAMES)
    else:
        assert evaluate(text, NAMES) == value
        assert Formulas(text)(NAMES) == [value]


@pytest.mark.parametrize(("text", "expected"), [
    ("BM % BN == 0", True), ("BM % WM == 0", False), ("BM > BN and BN > TM", True), ("BM < BN or TM < TN", False),
    ("ZERO or BM == 128", True), ("ZERO and 1/ZERO", False), ("BM == 128 or 1/ZERO", True), ("8 <= TM <= 8", True),
    ("32*(BM/WM) % 32 == 0", False), ("BM/WM >= 1 and BM/WM < 2", True),
])  # fmt: skip
def test_conditions(text: str, expected: bool) -> None:
    """What follows a decided ``and`` or ``or`` is not evaluated."""
    assert holds(text, NAMES) is expected


@pytest.mark.parametrize(("text", "reason"), [
    ("BM/WM", "'BM/WM' is 4/3, not an integer\nround it, for example ceil(BM/WM)"),
    ("BM/ZERO", "cannot evaluate 'BM/ZERO': "), ("1 << 70", "a shift by 70"),
    ("select(4, 1, 2)", "select(4, ...) of 2"),
    ("BM +", "cannot evaluate 'BM +'"), ("BM**2", "'BM ** 2' is not arithmetic"), ("open('x')", "is not arithmetic"),
    ("BM.real", "'BM.real' is not arithmetic"), ("[BM][0]", "is not arithmetic"), ("'a'", "is not arithmetic"),
    ("True", "is not arithmetic"), ("1.5", "is not arithmetic"), ("min(BM, default=1)", "functions take no keywords"),
    ("__import__('os')", "is not arithmetic"), ("(lambda: 1)()", "is not arithmetic"),
])  # fmt: skip
def test_what_is_not_an_integer_expression_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(text, NAMES)
    assert reason in str(caught.value)
    with pytest.raises((UsageError, SyntaxError, ValueError)):
        Formulas(text)(NAMES)


def test_several_formulas_say_which_one_is_wrong() -> None:
    assert Formulas("BM*2", "BM*BN/TN")(NAMES) == [256, 2048]
    with pytest.raises(UsageError, match="'BM/WM' is 4/3, not an integer"):
        Formulas("BM*2", "BM/WM")(NAMES)
    with pytest.raises(UsageError, match="cannot evaluate 'BM\\*BK': unknown name 'BK'"):
        Formulas("BM*2", "BM*BK")(NAMES)


@pytest.mark.parametrize(("text", "shown"), [
    ("BM", "BM=128"), ("BM*BN/(TM*TN)", "BM·BN/(TM·TN) = 128·64/(8·4) = 256"),
    ("4*(BM+BN)*BM", "4·(BM+BN)·BM = 4·(128+64)·128 = 98,304"), ("BM/WM", "BM/WM = 128/96 = 4/3"),
    ("BM*BN", "BM·BN = 128·64 = 8192"), ("max(BM, BN)", "max(BM, BN) = max(128, 64) = 128"),
])  # fmt: skip
def test_the_arithmetic_is_shown(text: str, shown: str) -> None:
    assert with_arithmetic(text, NAMES) == shown


def test_c_divides_as_c_does() -> None:
    assert evaluate_c("(BM + WM - 1) / WM", NAMES) == 2
    assert evaluate_c("sizeof(float) * BM / 3u", NAMES) == 170
    assert evaluate_c("(int)ceil((float)BM / 100)", NAMES) == 2


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("(K + (K >= 256 ? 4 : 2) - 1) / (K >= 256 ? 4 : 2)", [2, 4, 75]),
        ("K > 5 ? K < 9 ? 1 : 2 : K > 3 && K < 5 ? 3 : 4", [3, 1, 2]),
        ("max(1, K > 4 ? K / 3 : 2)", [2, 2, 100]),
    ],
)
def test_choices_of_c(text: str, values: list[int]) -> None:
    assert [evaluate_c(text, {"K": k}) for k in (4, 7, 300)] == values


@pytest.mark.parametrize("text", ["K ? 2", "K : 3", "((K ? 1 : 2)"])
def test_half_a_choice_is_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        evaluate_c(text, {"K": 4})
