"""A tuning file's findings about one GPU as a table, with the cost model's constants from all that was timed."""

from __future__ import annotations

from gemmsmith.choose.choice import known_gpu
from gemmsmith.choose.cost import Constants, chip_of, with_memory_of
from gemmsmith.choose.fit import Sample, fit
from gemmsmith.choose.key import contiguous, unaligned
from gemmsmith.choose.table import Table
from gemmsmith.choose.tuning_file import History, TuningFile
from gemmsmith.errors import UsageError
from gemmsmith.gpus import gpus


def table_of(file: TuningFile, gpu: str = "") -> Table:
    """The table of ``gpu``, or of the only GPU in the file. The fit starts from the estimates, so that the same file
    gives the same constants, whatever is shipped."""
    name = gpu or _only_gpu(file)
    # Runs of either kind stand apart in the file; the table has what both found, under keys of their own.
    history, any_order = (TuningFile(file.path, any_order=each).history(name) for each in (False, True))
    entries = file.best(name)
    if not entries:
        raise UsageError(f"{file.path} has no finished shape of {name}", "run gemmsmith tune --shapes … first")
    facts = known_gpu(name) or next(g for g in gpus() if g.arch == 90)
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
    raise UsageError(f"{file.path} tells of {len(found)} GPUs: {', '.join(found)}", "say which with --gpu")


def _samples(history: History) -> list[Sample]:
    """Of products whose rows all start on 16 bytes: what others cost besides is no matter of the constants."""
    return [
        Sample(key, tried.config, tried.us / 1e6)
        for key, candidates in sorted(history.tried.items())
        if not unaligned(contiguous(key))
        for tried in candidates.values()
        if tried.state == "timed" and tried.us > 0
    ]
