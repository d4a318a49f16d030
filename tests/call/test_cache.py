"""The cache of calls: least recently used entries go first, and all of them when tuning results change."""

from __future__ import annotations

from gemmsmith.call.cache import CACHE, CallCache
from gemmsmith.choose import choice


def test_the_least_recently_used_entry_is_evicted() -> None:
    cache = CallCache(capacity=3)
    for key in "abc":
        cache.put(key, key.upper())
    assert cache.get("a") == "A"
    cache.put("d", "D")
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    assert len(cache) == 3


def test_an_entry_may_be_replaced() -> None:
    cache = CallCache(capacity=2)
    for value in (1, 2):
        cache.put("a", value)
    assert (cache.get("a"), len(cache)) == (2, 1)


def test_a_key_that_cannot_be_hashed_has_no_entry() -> None:
    assert CallCache().get(("alpha", [1])) is None


def test_clear() -> None:
    cache = CallCache()
    cache.put("a", 1)
    cache.clear()
    assert (cache.get("a"), len(cache)) == (None, 0)


def test_forgetting_tuning_results_drops_everything() -> None:
    cache = CallCache()
    cache.put("a", 1)
    choice.forget()
    assert cache.get("a") is None
    cache.put("a", 2)
    assert cache.get("a") == 2


def test_the_process_has_one_cache_of_bounded_size() -> None:
    assert CACHE.capacity == 4096
