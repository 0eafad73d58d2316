"""Field case: headers for another kernel than the running one.

modinfo, nvidia-smi and the script that tells of a reboot are stubs.
"""

from collections.abc import Iterator

import pytest
import yaml
from machine import CHECKOUT, Machine, Played, host, machine

RUNNING, OTHER = "6.8.0-1015-aws", "6.8.0-1021-aws"
DRIVER = "580.159.03"
GPU = {"uuid": "GPU-00000000-0000-0000-0000-000000000000", "index": 0}
MODINFO = f"""#!/bin/sh
# STUB: a module for one kernel.
[ "$2" = {RUNNING} ] && echo {DRIVER} || {{ echo "modinfo: not found"; exit 1; }}
"""


def node(kernel: str, **variables: object) -> dict[str, object]:
    facts = {"kernel": kernel, "kernel_headers": [OTHER]}
    return host(
        facts, pins={"driver": DRIVER}, packages={"nvidia-open": DRIVER},
        pin_packages={"driver": ["nvidia-open"]}, gpus=[GPU], **variables,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine(tmp_path_factory.mktemp("c27")) as found:
        found.program("/usr/local/bin/modinfo", MODINFO)
        found.program("/usr/local/bin/nvidia-smi", f"#!/bin/sh\necho {GPU['uuid']}\n")
        found.program("/usr/local/lib/gpufleet/reboot-needed", "#!/bin/sh\nexit 0\n")
        found.program("/usr/local/bin/apt-cache", f"#!/bin/sh\necho 'linux-headers-{OTHER} - x'\n")
        yield found


@pytest.fixture(scope="module")
def played(made: Machine) -> Played:
    return made.play(
        ["nvidia_driver"],
        {
            "wrong": node(RUNNING, nvidia_driver_headers=f"linux-headers-{OTHER}"),
            "built": node(RUNNING),
            "unbuilt": node(OTHER),
        },
        "--tags", "preflight,verify",
    )  # fmt: skip


def test_c27_headers_of_another_kernel_stop_with_both_ways_out(played: Played) -> None:
    said = played.said("wrong")
    assert "wrong" in played.failed
    assert f"runs kernel {RUNNING}" in said
    assert f"has headers of {OTHER}" in said
    assert f"reboot into the kernel that has headers, or install linux-headers-{RUNNING}" in said


def test_c27_module_for_the_running_kernel_is_demanded_after_the_driver(played: Played) -> None:
    assert "built" not in played.failed, played.text
    assert "unbuilt" in played.failed
    assert "DKMS built none" in played.said("unbuilt")


def test_c27_headers_are_installed_before_the_driver() -> None:
    tasks = yaml.safe_load((CHECKOUT / "roles/nvidia_driver/tasks/install.yml").read_text())
    asked = [x["gpufleet.node.packages"]["packages"] for x in tasks]
    assert ["headers" in asked[0], "nvidia_driver_packages" in asked[1]] == [True, True]


def test_c27_pinned_kernel_without_headers_stops(made: Machine) -> None:
    done = made.play(
        ["kernel"],
        {"pinned": host({"kernel": OTHER}, pins={"kernel": RUNNING})},
        "--tags", "preflight",
    )  # fmt: skip
    assert "pinned" in done.failed
    assert f"is to boot kernel {RUNNING}" in done.said("pinned")
    assert f"headers of {OTHER}" in done.said("pinned")
