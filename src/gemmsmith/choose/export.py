"""A tuning file's results for one GPU as a table, with the cost model fitted to all its times."""

from __future__ import annotations

from gemmsmith.choose.constants import Constants, with_memory_of
from gemmsmith.choose.fit import Sample, fit
from gemmsmith.choose.key import contiguous, is_16_bit_key, unaligned
from gemmsmith.choose.models import TYPICAL_HOPPER, known_gpu
from gemmsmith.choose.table import Table
from gemmsmith.choose.tuning_file import History, TuningFile
from gemmsmith.choose.waves import chip_of
from gemmsmith.errors import UsageError
from gemmsmith.gpus import gpu_named


def table_of(file: TuningFile, gpu: str = "") -> Table:
    """The table of ``gpu``, or of the only GPU in the file. The fit starts from the estimates, not from the shipped
    table, so that the same file gives the same constants."""
    name = gpu or _only_gpu(file)
    # Deterministic and fastest runs are separate in the file; the table has both, under different keys.
    history, any_order = (TuningFile(file.path, any_order=each).history(name) for each in (False, True))
    entries = file.best(name)
    if not entries:
        raise UsageError(f"{file.path} has no finished shape of {name}", "run gemmsmith tune --shapes … first")
    facts = known_gpu(name) or gpu_named(TYPICAL_HOPPER)
    fitted = fit(_samples(history) + _samples(any_order), chip_of(facts), with_memory_of(Constants(), facts))
    commands = dict.fromkeys(str(run["command"]) for run in history.runs)
    last = history.runs[-1] if history.runs else {}
    versions = {str(name): str(version) for name, version in dict(last.get("versions", {})).items()}
    return Table(name, str(last.get("date", "")), versions, "; ".join(commands), fitted, entries)


def _only_gpu(file: TuningFile) -> str:
    found = file.gpus()
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"{file.path} holds nothing that was tuned", "run gemmsmith tune --shapes … first")
    raise UsageError(f"{file.path} has results of {len(found)} GPUs: {', '.join(found)}", "say which with --gpu")


def _samples(history: History) -> list[Sample]:
    """Times of aligned shapes; what unaligned ones cost besides is not among the fitted constants."""
    return [
        Sample(key, tried.config, tried.us / 1e6)
        for key, candidates in sorted(history.tried.items())
        if is_16_bit_key(key) and not unaligned(contiguous(key))
        for tried in candidates.values()
        if tried.state == "timed" and tried.us > 0
    ]
