"""Tasks on a Ray cluster of several nodes on this machine: nothing is lost, everything is recorded exactly once."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import drive, end, environment, finish, is_running, ran, recorded, squares, start, wait_until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

CLIENT_PORT = free_port()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without cores, and two nodes with one core each, of which one has a GPU by its word."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": CLIENT_PORT}
        made = Cluster(initialize_head=True, head_node_args=head)
        made.add_node(num_cpus=1)
        made.add_node(num_cpus=1, num_gpus=1, resources={"accelerator_type:H200": 1})
        yield made
        made.shutdown()


@pytest.fixture
def address(cluster: Any) -> dict[str, str]:
    return {"RAY_ADDRESS": cluster.address}


def test_two_thousand_small_tasks_on_two_nodes(tmp_path: Path, address: dict[str, str]) -> None:
    facts = drive(tmp_path, "ray", squares(tmp_path, 2000), address)
    assert [each["value"] for each in facts["results"]] == [x * x for x in range(2000)]
    assert ran(tmp_path) == list(range(2000))
    assert len(set(recorded(tmp_path))) == len(recorded(tmp_path)) == 2000
    assert len({each["node"] for each in facts["results"]}) == 2


def test_crashes_and_hangs(tmp_path: Path, address: dict[str, str]) -> None:
    tasks = [
        {"kind": "crash", "parameters": {"count": str(tmp_path / "a"), "times": 2}},
        {"kind": "crash", "parameters": {"count": str(tmp_path / "b"), "times": 9}},
        {"kind": "hang", "parameters": {"pid": str(tmp_path / "pid")}, "limit": 2},
        *squares(tmp_path, 20),
    ]
    found = drive(tmp_path, "ray", tasks, address)["results"]
    assert (found[0]["value"], found[0]["tries"]) == ("survived", 3)
    assert (found[1]["state"], found[1]["tries"], found[1]["log"]) == ("failed", 3, "about to crash")
    assert found[2]["error"]["message"] == "hang: not finished after 2 s"
    assert [each["value"] for each in found[3:]] == [x * x for x in range(20)]
    assert len(set(recorded(tmp_path))) == len(recorded(tmp_path)) == len(tasks)


def test_a_node_killed_in_the_middle(tmp_path: Path, cluster: Any, address: dict[str, str]) -> None:
    node = cluster.add_node(num_cpus=1)
    driver = start(tmp_path, "ray", squares(tmp_path, 150, 0.05), address)
    wait_until(lambda: len(recorded(tmp_path)) >= 30)
    cluster.remove_node(node, allow_graceful=False)
    facts = finish(driver)
    assert [each["value"] for each in facts["results"]] == [x * x for x in range(150)]
    assert set(ran(tmp_path)) == set(range(150))
    assert len(set(recorded(tmp_path))) == len(recorded(tmp_path)) == 150
    assert len({each["node"] for each in facts["results"]}) == 3


def test_a_driver_killed_in_the_middle(tmp_path: Path, address: dict[str, str]) -> None:
    hang = {"kind": "hang", "parameters": {"pid": str(tmp_path / "pid")}, "limit": 5}
    tasks = [hang, *squares(tmp_path, 60, 0.05)]
    driver = start(tmp_path, "ray", tasks, address)
    wait_until(lambda: len(recorded(tmp_path)) >= 10 and (tmp_path / "pid").exists())
    end(driver, signal.SIGKILL)
    done = len(recorded(tmp_path))
    hanging = [int(pid) for pid in (tmp_path / "pid").read_text().split()]
    wait_until(lambda: not any(is_running(pid) for pid in hanging), 20)
    facts = drive(tmp_path, "ray", tasks, address)
    assert facts["resumed"] == done
    assert [each["value"] for each in facts["results"][1:]] == [x * x for x in range(60)]
    assert len(set(recorded(tmp_path))) == len(recorded(tmp_path)) == 61


def test_an_interrupt_leaves_no_process(tmp_path: Path, address: dict[str, str]) -> None:
    driver = start(tmp_path, "ray", [{"kind": "hang", "parameters": {"pid": str(tmp_path / "pid")}}], address)
    wait_until(lambda: (tmp_path / "pid").exists() and " " in (tmp_path / "pid").read_text())
    assert end(driver, signal.SIGINT) == 130
    wait_until(lambda: not any(is_running(int(pid)) for pid in (tmp_path / "pid").read_text().split()), 20)


def test_gpu_tasks_run_where_that_kind_is_and_one_at_a_time(tmp_path: Path, address: dict[str, str]) -> None:
    tasks = [each | {"gpu": "h200"} for each in squares(tmp_path, 6, 0.1)]
    facts = drive(tmp_path, "ray", tasks, address)
    assert len({each["node"] for each in facts["results"]}) == 1
    driver = start(tmp_path, "ray", [each | {"gpu": "A100"} for each in squares(tmp_path, 2)], address)
    _, error = driver.communicate(timeout=60)
    assert driver.returncode == 3
    assert error == "MissingDeviceError: the cluster has no GPU of kind A100\nit has H200\n"


@pytest.mark.usefixtures("cluster")
def test_a_driver_outside_the_cluster(tmp_path: Path) -> None:
    facts = drive(tmp_path, f"ray://127.0.0.1:{CLIENT_PORT}", squares(tmp_path, 20))
    assert [each["value"] for each in facts["results"]] == [x * x for x in range(20)]
    assert len(set(recorded(tmp_path))) == 20
