"""Tasks in processes of this machine: none is lost, none is recorded twice, none outlives the driver."""

from __future__ import annotations

import signal
from pathlib import Path

from driving import drive, end, finish, is_running, ran, recorded, squares, start, wait_until


def test_a_crash_is_tried_three_times_and_reported_with_its_log(tmp_path: Path) -> None:
    tasks = [
        {"kind": "crash", "parameters": {"count": str(tmp_path / "a"), "times": 2}},
        {"kind": "crash", "parameters": {"count": str(tmp_path / "b"), "times": 9}},
        {"kind": "refuse", "parameters": {}},
        *squares(tmp_path, 3),
    ]
    found = drive(tmp_path, "local:2", tasks)["results"]
    assert (found[0]["state"], found[0]["value"], found[0]["tries"]) == ("done", "survived", 3)
    assert (found[1]["state"], found[1]["tries"], found[1]["log"]) == ("failed", 3, "about to crash")
    assert "was lost 3 times" in found[1]["error"]["message"]
    assert "SIGSEGV" in found[1]["error"]["message"]
    assert (found[2]["error"]["kind"], found[2]["tries"]) == ("UsageError", 1)
    assert [each["value"] for each in found[3:]] == [0, 1, 4]
    assert (tmp_path / "b").read_text() == "xxx"
    assert len(recorded(tmp_path)) == len(tasks)


def test_a_hanging_task_is_ended_with_its_children(tmp_path: Path) -> None:
    tasks = [{"kind": "hang", "parameters": {"pid": str(tmp_path / "pid")}, "limit": 3}, *squares(tmp_path, 2)]
    found = drive(tmp_path, "local:1", tasks)["results"]
    assert found[0]["error"]["message"] == "hang: not finished after 3 s"
    assert (found[0]["tries"], found[0]["log"]) == (1, "hanging now")
    assert [each["value"] for each in found[1:]] == [0, 1]
    wait_until(lambda: not any(is_running(int(pid)) for pid in (tmp_path / "pid").read_text().split()))


def test_a_killed_driver_leaves_no_process_and_goes_on(tmp_path: Path) -> None:
    tasks = [*squares(tmp_path, 40, 0.05), {"kind": "hang", "parameters": {"pid": str(tmp_path / "pid")}, "limit": 4}]
    driver = start(tmp_path, "local:2", [tasks[-1], *tasks[:-1]])
    wait_until(lambda: len(recorded(tmp_path)) >= 10 and (tmp_path / "pid").exists())
    end(driver, signal.SIGKILL)
    done = len(recorded(tmp_path))
    assert 10 <= done < 40
    hanging = [int(pid) for pid in (tmp_path / "pid").read_text().split()]
    wait_until(lambda: not any(is_running(pid) for pid in hanging), 10)
    facts = drive(tmp_path, "local:2", [tasks[-1], *tasks[:-1]])
    assert facts["resumed"] == done
    assert [each["value"] for each in facts["results"][1:]] == [x * x for x in range(40)]
    assert len(recorded(tmp_path)) == len(set(recorded(tmp_path))) == 41
    assert len(ran(tmp_path)) <= 42  # one of each of two workers may have run unrecorded
    again = drive(tmp_path, "local:2", tasks[:3])  # other tasks: another job
    assert again["resumed"] == 0


def test_a_finished_job_is_done_anew_and_restart_leaves_a_stopped_one(tmp_path: Path) -> None:
    tasks = squares(tmp_path, 3)
    assert drive(tmp_path, "local:1", tasks)["resumed"] == 0
    assert drive(tmp_path, "local:1", tasks)["resumed"] == 0
    assert ran(tmp_path) == [0, 0, 1, 1, 2, 2]


def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    driver = start(tmp_path, "local:1", [{"kind": "hang", "parameters": {"pid": str(tmp_path / "pid")}}])
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().count(" "))
    assert end(driver, signal.SIGINT) == 130
    assert not any(is_running(int(pid)) for pid in (tmp_path / "pid").read_text().split())


def test_two_thousand_small_tasks(tmp_path: Path) -> None:
    facts = finish(start(tmp_path, "local:2", squares(tmp_path, 2000)))
    assert [each["value"] for each in facts["results"]] == [x * x for x in range(2000)]
    assert ran(tmp_path) == list(range(2000))
    assert len(set(recorded(tmp_path))) == len(recorded(tmp_path)) == 2000
