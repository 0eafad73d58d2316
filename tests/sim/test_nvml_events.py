"""Events: an edit of the description is told once to each set that watches the GPU."""

import time
from collections.abc import Iterator

import pynvml
import pytest

from gpufleet.simgpu import NodeDescription
from simnode import NvmlCallError, Session, SimNode

XID = pynvml.nvmlEventTypeXidCriticalError
DOUBLE_BIT = pynvml.nvmlEventTypeDoubleBitEccError
WAIT_MS = 10_000


@pytest.fixture
def nvml(node: SimNode) -> Iterator[Session]:
    with node.session() as session:
        yield session


def nothing_more(nvml: Session) -> None:
    with pytest.raises(NvmlCallError, match="Timeout"):
        nvml.call("wait", 60)


def test_xid_wakes_a_waiter_once(nvml: Session, node: SimNode, h200: NodeDescription) -> None:
    nvml.call("watch", XID | DOUBLE_BIT)
    nvml.send("wait", WAIT_MS)
    assert not nvml.answered(0.1)
    node.write(h200.with_gpu(5, xids=(79,)))
    assert nvml.receive() == {"gpu": 5, "type": XID, "data": 79}
    nothing_more(nvml)


def test_one_more_line_is_one_more_event(
    nvml: Session, node: SimNode, h200: NodeDescription
) -> None:
    nvml.call("watch", XID)
    node.write(h200.with_gpu(0, xids=(48, 48)).with_gpu(2, xids=(63,)))
    told = [nvml.call("wait", WAIT_MS) for _ in range(3)]
    assert [(event["gpu"], event["data"]) for event in told] == [(0, 48), (0, 48), (2, 63)]
    node.write(h200.with_gpu(0, xids=(48, 48, 94)).with_gpu(2, xids=(63,)))
    assert nvml.call("wait", WAIT_MS)["data"] == 94
    nothing_more(nvml)


def test_another_number_in_the_same_line_is_an_event(
    nvml: Session, node: SimNode, h200: NodeDescription
) -> None:
    nvml.call("watch", XID)
    for xid in (31, 43):
        node.write(h200.with_gpu(0, xids=(xid,)))
        assert nvml.call("wait", WAIT_MS)["data"] == xid
    node.write(h200)
    nothing_more(nvml)
    node.write(h200.with_gpu(0, xids=(43,)))
    assert nvml.call("wait", WAIT_MS)["data"] == 43


def test_xid_from_before_the_registration_is_no_event(node: SimNode, h200: NodeDescription) -> None:
    node.write(h200.with_gpu(0, xids=(79,)))
    with node.session() as nvml:
        nvml.call("watch", XID)
        nothing_more(nvml)


def test_uncorrectable_memory_error_is_an_event(
    nvml: Session, node: SimNode, h200: NodeDescription
) -> None:
    nvml.call("watch", XID | DOUBLE_BIT)
    node.write(h200.with_gpu(3, ecc_uncorrectable=1))
    assert nvml.call("wait", WAIT_MS) == {"gpu": 3, "type": DOUBLE_BIT, "data": 0}
    nothing_more(nvml)


def test_lost_gpu_tells_its_xid_first(nvml: Session, node: SimNode, h200: NodeDescription) -> None:
    nvml.call("watch", XID)
    node.write(h200.with_gpu(1, fault="lost", xids=(79,)))
    assert nvml.call("wait", WAIT_MS)["data"] == 79
    with pytest.raises(NvmlCallError, match="GPU is lost"):
        nvml.call("wait", WAIT_MS)


def test_wait_keeps_its_time_limit(nvml: Session) -> None:
    nvml.call("watch", XID)
    before = time.monotonic()
    nothing_more(nvml)
    assert 0.05 < time.monotonic() - before < 5


def test_kinds_of_events_without_a_source_are_refused(nvml: Session) -> None:
    supported = nvml.get("SupportedEventTypes", 0)
    assert supported & XID
    assert supported & DOUBLE_BIT
    with pytest.raises(NvmlCallError, match="Not Supported"):
        nvml.call("watch", pynvml.nvmlEventTypeClock)
