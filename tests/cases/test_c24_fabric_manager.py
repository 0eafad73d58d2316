"""Field case: a fabric manager that is not exactly the driver's version."""

from datetime import date

import pytest

from gpufleet.stack import StackSet, check
from gpufleet.stack.lockstep import complete, missing_from, packages

NOW = date(2024, 12, 1)
DRIVER = "550.90.07"


def pinned(**pins: str) -> StackSet:
    return StackSet("c", "", pins)


def test_c24_same_branch_is_not_enough() -> None:
    (clash,) = check(pinned(driver=DRIVER, fabricmanager="550.107.02"), NOW)
    assert clash.rule == "driver.lock-step"
    assert clash.level == "error"
    assert clash.pins == {"driver": DRIVER, "fabricmanager": "550.107.02"}
    assert f"pin fabricmanager to {DRIVER}" in clash.fix


def test_c24_manager_that_is_not_pinned_follows_the_whole_version_of_the_driver() -> None:
    full = complete(pinned(driver=DRIVER))
    assert full.pins["fabricmanager"] == DRIVER
    assert check(full, NOW) == []


def test_c24_what_is_pinned_is_not_changed_behind_ones_back() -> None:
    full = complete(pinned(driver=DRIVER, fabricmanager="550.107.02"))
    assert full.pins["fabricmanager"] == "550.107.02"


def test_c24_one_version_for_both_packages_whatever_their_suffix() -> None:
    debs = packages(complete(pinned(driver=DRIVER)))
    upstream = {version.split("-")[0] for version in debs.values()}
    assert upstream == {DRIVER}
    assert debs["nvidia-driver-550-open"] != debs["nvidia-fabricmanager-550"]


def repository(driver: list[str], manager: list[str]) -> dict[str, list[str]]:
    found = {}
    for version in {*driver, *manager}:
        for name, wanted in packages(pinned(driver=version, fabricmanager=version)).items():
            has = manager if "fabricmanager" in name else driver
            if version in has:
                found.setdefault(name, []).append(wanted)
    return found


def test_c24_repository_without_the_managers_version_names_those_that_exist_for_both() -> None:
    both = complete(pinned(driver=DRIVER), only={"fabricmanager"})
    (missing,) = missing_from(
        both, repository([DRIVER, "550.127.08", "550.54.15"], ["550.127.08", "550.107.02"])
    )
    assert missing.package == "nvidia-fabricmanager-550"
    assert missing.wanted == f"{DRIVER}-1"
    assert missing.common == ("550.127.08",)
    assert "550.127.08" in str(missing)


@pytest.mark.parametrize("has", [[DRIVER], [DRIVER, "550.127.08"]])
def test_c24_repository_with_both_is_fine(has: list[str]) -> None:
    both = complete(pinned(driver=DRIVER), only={"fabricmanager"})
    assert missing_from(both, repository(has, has)) == []
