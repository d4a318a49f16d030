"""The results database: records round-trip and are found again."""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from measured_runs import measurement, run, timing

from gemmsmith.errors import UsageError
from gemmsmith.problem import ACTIVATIONS, BIASES, DTYPES, INT32, OUTPUTS, Problem
from gemmsmith.run.contender import Identity
from gemmsmith.store.database import Results
from gemmsmith.store.results import Conditions, Machine, Measurement, Ratio, Run, Timing

# --- exactness ------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=()), max_size=6)  # lone surrogates and NUL too
FLOATS = st.floats() | st.sampled_from([-0.0, 5e-324, math.nan, math.inf])
INTEGERS = st.integers(0, 2**63 - 1)
BASIC = {"str": TEXTS, "float": FLOATS, "int": INTEGERS, "bool": st.booleans()}


def records(kind: type, **special: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draws every field, so a field added later must be stored too, or this fails."""
    types = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    return st.builds(kind, **{name: special[name] if name in special else BASIC[types[name]] for name in types})


def tuples(item: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(item, max_size=3).map(tuple)


DIMENSION = st.integers(0, 2**31 - 1)
LEADING = st.integers(2**31, 2**63 - 1) | st.just(-1)
# Valid pairs of input and output types; Problem itself checks batch strides.
TYPES = [(dtype, out) for dtype, outs in OUTPUTS.items() for out in outs if out != INT32]
PROBLEMS = st.sampled_from(TYPES).flatmap(
    lambda types: records(
        Problem, m=DIMENSION, n=DIMENSION, k=DIMENSION, dtype=st.just(types[0]), out_dtype=st.just(types[1]),
        lda=LEADING, ldb=LEADING, ldc=LEADING, batch=st.just(1), stride_a=st.just(-1), stride_b=st.just(-1),
        stride_c=st.just(-1), bias=st.sampled_from(BIASES), activation=st.sampled_from(ACTIVATIONS),
    )
) | st.builds(
    Problem, m=st.integers(0, 99), n=st.integers(0, 99), k=st.integers(0, 99), batch=st.integers(2, 2**31 - 1),
    stride_a=st.sampled_from((-1, 0, 10**6)), stride_b=st.sampled_from((-1, 0, 2**62)),
)  # fmt: skip
MEASUREMENTS = records(
    Measurement, identity=records(Identity), problem=PROBLEMS, rho=st.tuples(FLOATS, FLOATS),
    timings=tuples(records(Timing)), ratios=tuples(records(Ratio)), counters=tuples(st.tuples(TEXTS, FLOATS)),
    conditions=records(Conditions, throttled=tuples(TEXTS)),
)  # fmt: skip
MACHINES = records(Machine, packages=tuples(st.tuples(TEXTS, TEXTS)))
IDS = st.builds(lambda text: str(uuid.uuid4()) + text, TEXTS)
RUNS = records(Run, id=IDS, machine=MACHINES, measurements=tuples(MEASUREMENTS))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    with Results.open(tmp_path_factory.mktemp("shared") / "results.db") as results:
        yield results


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RUNS, MEASUREMENTS)
def test_records_round_trip(shared: Results, given_run: Run, later: Measurement) -> None:
    shared.begin(given_run)
    shared.add(given_run.id, later)
    expected = dataclasses.replace(given_run, measurements=(*given_run.measurements, later))
    # Compared as text, so that NaN equals itself and -0.0 differs from 0.0.
    assert repr(shared.run(given_run.id)) == repr(expected)


def test_numpy_scalars_are_stored_as_plain_numbers(tmp_path: Path) -> None:
    odd = measurement(
        timings=(timing(1.0, median=np.float32(0.5), samples=np.int64(7), converged=np.True_),),
        counters=(("registers", 128), ("occupancy", np.float64(0.25))), overhead=np.float32("nan"),
    )  # fmt: skip
    with Results.open(tmp_path / "r.db") as results:
        results.begin(run("r1", odd))
        (found,) = results.run("r1").measurements
    assert repr(found.timings[0]) == repr(timing(1.0, median=0.5, samples=7, converged=True))
    assert repr(found.counters) == "(('registers', 128.0), ('occupancy', 0.25))"
    assert math.isnan(found.overhead)


def test_a_too_large_number_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    with Results.open(tmp_path / "r.db") as results:
        results.begin(run("r1"))
        with pytest.raises(UsageError, match="cannot record"):
            results.add("r1", measurement(timings=(timing(1.0), timing(1.0, samples=2**63))))
        assert results.run("r1").measurements == ()
        results.add("r1", measurement())
        assert results.run("r1") == run("r1", measurement())


# --- queries ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Results]:
    """Three runs, stored out of order."""
    other = dataclasses.replace(run().machine, gpu="NVIDIA RTX A6000")
    with Results.open(tmp_path / "r.db") as results:
        results.begin(run("bbb2", measurement("naive", 900.0), measurement("warp_tile", 100.0, 2048), day=14))
        results.begin(run("bbb1", measurement("naive", 901.0), day=16))
        results.begin(run("a", measurement(problem=Problem(1, 2, 3, DTYPES["fp16"])), day=12, machine=other))
        yield results


def test_runs_come_newest_first(three: Results) -> None:
    assert three.ids() == ("bbb1", "bbb2", "a")
    assert [r.id for r in three.runs(limit=2)] == ["bbb1", "bbb2"]
    assert [r.id for r in three.runs(gpu="a6000")] == ["a"]
    assert [r.id for r in three.runs(since="2026-11-14")] == ["bbb1", "bbb2"]
    assert three.runs(since="2026-11-14T08:30:01") == three.runs(limit=1)
    assert len(three.runs(since="2026-11-14T10:30:00+02:00")) == 2, "08:30 in UTC"


def test_measurements_by_filter(three: Results) -> None:
    def found(**filters: Any) -> list[tuple[str, str, int]]:
        return [(r.run.id, r.measurement.identity.name, r.measurement.problem.m) for r in three.measurements(**filters)]

    everything = [("bbb1", "naive", 1024), ("bbb2", "naive", 1024), ("bbb2", "warp_tile", 2048), ("a", "warp_tile", 1)]
    assert found() == everything
    assert found(contender="naive") == everything[:2]
    assert found(shape=(2048, 2048, 2048)) == everything[2:3]
    assert found(shape=(1, 2, 3), contender="naive") == []
    assert found(dtype="fp16") == everything[3:]
    assert found(gpu="h200") == everything[:3]
    assert found(since="2026-11-16", contender="naive") == everything[:1]
    assert found(run="bbb2", contender="naive") == everything[1:2]
    assert found(run="latest~2") == everything[3:]
    # Dependent rows belong to their own measurement, even if a filter excludes others.
    (record,) = three.measurements(contender="warp_tile", shape=(2048, 2048, 2048))
    assert record.measurement == measurement("warp_tile", 100.0, 2048)
    assert record.run == run("bbb2", day=14)


@pytest.mark.parametrize(
    ("name", "found"),
    [("latest", "bbb1"), ("~0", "bbb1"), ("~1", "bbb2"), ("latest~2", "a"), ("bbb2", "bbb2"), ("a", "a")],
)
def test_names_of_a_run(three: Results, name: str, found: str) -> None:
    assert three.run(name).id == found


@pytest.mark.parametrize(
    ("name", "says"),
    [("bbb", "2 runs begin with 'bbb'"), ("c", "no run 'c'"), ("", "no run ''"), ("~3", "only 3 runs"), ("%", "no run"),
     ("latest~", "no run"), ("~-1", "no run")],
)  # fmt: skip
def test_names_without_a_run_are_refused(three: Results, name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        three.run(name)


def test_an_exact_id_wins_over_a_prefix(tmp_path: Path) -> None:
    with Results.open(tmp_path / "r.db") as results:
        results.begin(run("ab"))
        results.begin(run("abc"))
        assert results.run("ab").id == "ab"


def test_wrong_use_is_refused(three: Results) -> None:
    with pytest.raises(UsageError, match="not a date"):
        three.runs(since="yesterday")
    with pytest.raises(UsageError, match="run a is already in"):
        three.begin(run("a"))
    with pytest.raises(UsageError, match="no run zzz"):
        three.add("zzz", measurement())
    assert three.ids() == ("bbb1", "bbb2", "a")


def test_a_reader_sees_one_state_while_a_writer_writes(tmp_path: Path) -> None:
    with Results.open(tmp_path / "r.db") as writer, Results.open(tmp_path / "r.db", read_only=True) as reader:
        writer.begin(run("r1"))
        writer._connection.execute("BEGIN IMMEDIATE")
        writer._connection.execute("DELETE FROM run")
        assert reader.ids() == ("r1",), "neither blocked nor half-way"
        writer._connection.execute("ROLLBACK")
