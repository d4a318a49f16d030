"""The tables of the results database, as migrations from each version to the next.

A released migration is never edited; a new version is a new migration at the end. docs/results.md describes the tables.

Floating-point columns have no declared type. In a REAL column SQLite would store -0.0 as 0; without a type it keeps all
64 bits. NULL stands for NaN, which SQLite cannot store.
"""

from __future__ import annotations

APPLICATION_ID = 0x47534D52  # 'GSMR' in the file header; other programs' databases are left alone

_RUN = """
CREATE TABLE run (
    number    INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    started   TEXT NOT NULL,
    command   TEXT NOT NULL,
    gemmsmith TEXT NOT NULL,
    host      TEXT NOT NULL,
    system    TEXT NOT NULL,
    cpu       TEXT NOT NULL,
    python    TEXT NOT NULL,
    gpu       TEXT NOT NULL,
    arch      TEXT NOT NULL,
    driver    TEXT NOT NULL,
    cuda      TEXT NOT NULL,
    compiler  TEXT NOT NULL
)"""

_PACKAGE = """
CREATE TABLE package (
    run      INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name     TEXT NOT NULL,
    version  TEXT NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID"""

_MEASUREMENT = """
CREATE TABLE measurement (
    number    INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    contender TEXT NOT NULL,
    kind      TEXT NOT NULL,
    config    TEXT NOT NULL,
    precision TEXT NOT NULL,
    version   TEXT NOT NULL,
    digest    TEXT NOT NULL,
    m         INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    k         INTEGER NOT NULL,
    dtype     TEXT NOT NULL,
    out_dtype TEXT NOT NULL,
    alpha,
    beta,
    lda       INTEGER NOT NULL,
    ldb       INTEGER NOT NULL,
    ldc       INTEGER NOT NULL,
    trans_a   INTEGER NOT NULL CHECK (trans_a IN (0, 1)),
    trans_b   INTEGER NOT NULL CHECK (trans_b IN (0, 1)),
    batch     INTEGER NOT NULL,
    stride_a  INTEGER NOT NULL,
    stride_b  INTEGER NOT NULL,
    stride_c  INTEGER NOT NULL,
    bias      TEXT NOT NULL,
    activation TEXT NOT NULL,
    origin    TEXT NOT NULL,
    verified  INTEGER NOT NULL CHECK (verified IN (0, 1)),
    rejected  TEXT NOT NULL,
    rho_before,
    rho_after,
    sm_mhz,
    sm_mhz_min,
    sm_mhz_max,
    power_w,
    power_w_max,
    temperature_c,
    condition_samples INTEGER NOT NULL,
    overhead,
    limit_tflops
)"""

_TIMING = """
CREATE TABLE timing (
    measurement INTEGER NOT NULL REFERENCES measurement ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    mode        TEXT NOT NULL,
    cache       TEXT NOT NULL,
    median,
    low,
    high,
    spread,
    samples     INTEGER NOT NULL,
    launches    INTEGER NOT NULL,
    converged   INTEGER NOT NULL CHECK (converged IN (0, 1)),
    PRIMARY KEY (measurement, position)
) WITHOUT ROWID"""

_RATIO = """
CREATE TABLE ratio (
    measurement INTEGER NOT NULL REFERENCES measurement ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    baseline    TEXT NOT NULL,
    value,
    low,
    high,
    PRIMARY KEY (measurement, position)
) WITHOUT ROWID"""

_COUNTER = """
CREATE TABLE counter (
    measurement INTEGER NOT NULL REFERENCES measurement ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    name        TEXT NOT NULL,
    value,
    PRIMARY KEY (measurement, position)
) WITHOUT ROWID"""

_THROTTLE = """
CREATE TABLE throttle (
    measurement INTEGER NOT NULL REFERENCES measurement ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    PRIMARY KEY (measurement, position)
) WITHOUT ROWID"""

# For users with a query tool: one row per timing, and one for a measurement without timings. Not read by gemmsmith.
_RESULT = """
CREATE VIEW result AS
SELECT
    run.id AS run, run.started, run.command, run.gpu, run.driver, run.cuda, run.compiler, run.gemmsmith,
    measurement.contender, measurement.kind, measurement.config, measurement.precision, measurement.version,
    measurement.digest, measurement.m, measurement.n, measurement.k, measurement.dtype, measurement.out_dtype,
    CASE trans_a WHEN 1 THEN 'T' ELSE 'N' END || CASE trans_b WHEN 1 THEN 'T' ELSE 'N' END AS layout,
    measurement.alpha, measurement.beta, measurement.origin, measurement.verified, measurement.rejected,
    timing.mode, timing.cache, timing.median, timing.low, timing.high, timing.spread, timing.samples,
    timing.launches, timing.converged,
    CASE WHEN timing.median > 0 THEN 2.0 * m * n * k / timing.median / 1e12 END AS tflops,
    measurement.limit_tflops, measurement.sm_mhz, measurement.power_w, measurement.temperature_c
FROM measurement
JOIN run ON run.number = measurement.run
LEFT JOIN timing ON timing.measurement = measurement.number"""

# The number of runs, with a checksum that SQL can compute: a run deleted with SQL is no damage, a vanished one is.
_LEDGER = """
CREATE TABLE ledger (
    number   INTEGER PRIMARY KEY CHECK (number = 1),
    runs     INTEGER NOT NULL,
    checksum INTEGER NOT NULL
)"""
_COUNTED = "UPDATE ledger SET runs = runs {0} 1, checksum = -1 - (runs {0} 1)"
_CHECKSUMMED = ("run", "package", "measurement", "timing", "ratio", "counter", "throttle")

# The tasks of commands that run on several machines (cluster/): one row for each that ended, written once.
_JOB = """
CREATE TABLE job (
    number    INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    digest    TEXT NOT NULL,
    started   TEXT NOT NULL,
    command   TEXT NOT NULL,
    gemmsmith TEXT NOT NULL,
    place     TEXT NOT NULL,
    tasks     INTEGER NOT NULL,
    checksum  TEXT NOT NULL
)"""
_JOB_END = """
CREATE TABLE job_end (
    job      INTEGER PRIMARY KEY REFERENCES job ON DELETE CASCADE,
    ended    TEXT NOT NULL,
    failed   INTEGER NOT NULL,
    checksum TEXT NOT NULL
)"""
_TASK = """
CREATE TABLE task (
    number   INTEGER PRIMARY KEY,
    job      INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,
    digest   TEXT NOT NULL,
    kind     TEXT NOT NULL,
    label    TEXT NOT NULL,
    state    TEXT NOT NULL,
    tries    INTEGER NOT NULL,
    host     TEXT NOT NULL,
    gpu      TEXT NOT NULL,
    driver   TEXT NOT NULL,
    sm_mhz,
    seconds,
    result   BLOB NOT NULL,
    log      TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (job, digest)
)"""

CHECKSUMS = 2  # the version from which on rows have checksums
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        _RUN, _PACKAGE, _MEASUREMENT, _TIMING, _RATIO, _COUNTER, _THROTTLE, _RESULT,
        "CREATE INDEX run_by_start ON run (started)",
        "CREATE INDEX measurement_by_run ON measurement (run)",
        "CREATE INDEX measurement_by_contender ON measurement (contender, m, n, k)",
    ),
    (
        "ALTER TABLE run ADD COLUMN measurements INTEGER NOT NULL DEFAULT 0",
        *(f"ALTER TABLE {name} ADD COLUMN checksum TEXT NOT NULL DEFAULT ''" for name in _CHECKSUMMED),
        _LEDGER,
        "INSERT INTO ledger SELECT 1, count(*), -1 - count(*) FROM run",
        f"CREATE TRIGGER run_recorded AFTER INSERT ON run BEGIN {_COUNTED.format('+')}; END",
        f"CREATE TRIGGER run_deleted AFTER DELETE ON run BEGIN {_COUNTED.format('-')}; END",
    ),
    (_JOB, _JOB_END, _TASK, "CREATE INDEX task_by_label ON task (kind, label)"),
)  # fmt: skip
