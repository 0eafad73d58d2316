"""Membership under the simulator: many seeds, random faults, what must hold at every step.

How many seeds: GPUFLEET_SIM_SEEDS; one seed alone: GPUFLEET_SIM_SEED. The invariants that are
checked after every step are those of SimulatedCluster.
"""

from collections.abc import Callable
from random import Random

from gpufleet_agent.membership import Status
from gpufleet_agent.sim import Kernel, Network, chosen_seeds, sweep
from gpufleet_agent.sim.members import SimulatedCluster

HERE = "agent/tests/membership/test_membership_sim.py"
DETECTION_BOUND = 0.6  # seconds
FLAKY = {"loss": 0.05, "duplicate": 0.05, "straggle": 0.05, "straggle_by": 0.03}


def run_seeds(scenario: Callable[[int], object], count: int, test: str) -> None:
    sweep(scenario, chosen_seeds(count), f"{HERE}::{test}")


def formed(seed: int, count: int, **faults: float) -> SimulatedCluster:
    """A cluster whose members all know one another."""
    cluster = SimulatedCluster(Kernel(seed, Network(**faults)), count)
    cluster.kernel.run_until(cluster.agree, 5, step=0.05)
    return cluster


def settle(cluster: SimulatedCluster, seconds: float) -> None:
    cluster.kernel.run_until(cluster.agree, cluster.kernel.now + seconds, step=0.05)


def damaged(payload: bytes, random: Random) -> bytes:
    at = random.randrange(len(payload))
    end = random.choice((at + 9, None))
    return payload[:at] + bytes((random.randrange(256),)) + payload[at + 1 : end]


def possible_faults(
    cluster: SimulatedCluster, name: str, other: str
) -> tuple[Callable[[], object], ...]:
    kernel = cluster.kernel
    rest = [each for each in cluster.names if each not in (name, other)]
    return (
        lambda: kernel.crash(name),
        lambda: kernel.restart(name),
        lambda: kernel.pause(name),
        lambda: kernel.resume(name),
        lambda: kernel.network.block(name, other),
        lambda: kernel.network.partition([name, other], rest),
        lambda: kernel.network.heal(),
        lambda: cluster.change_facts(name, kernel.random.randrange(100)),
    )


def test_killed_member_is_known_to_all_within_the_bound():
    def scenario(seed: int) -> None:
        cluster = formed(seed, 16)
        kernel = cluster.kernel
        victim = f"n{kernel.random.randrange(16)}"
        kernel.run(kernel.now + kernel.random.random())
        kernel.crash(victim)
        killed = kernel.now
        known = kernel.run_until(
            lambda: cluster.know(Status.DEAD, victim, cluster.running()), killed + DETECTION_BOUND
        )
        assert known - killed <= DETECTION_BOUND
        assert {of for _, _, of in cluster.deaths} == {victim}

    run_seeds(scenario, 30, "test_killed_member_is_known_to_all_within_the_bound")


def test_nobody_is_given_up_without_a_fault_and_rows_arrive():
    def scenario(seed: int) -> None:
        cluster = formed(seed, 6)
        kernel = cluster.kernel
        for i in range(6):
            kernel.at(kernel.now + i * 0.4, lambda i=i: cluster.change_facts(f"n{i}", seed + i))
        kernel.run(kernel.now + 3.5)
        settle(cluster, 2)
        facts = {row.name: row.facts.credits for row, _ in cluster.member("n5").core.members()}
        assert facts == {f"n{i}": seed + i for i in range(6)}
        assert cluster.deaths == []

    run_seeds(scenario, 30, "test_nobody_is_given_up_without_a_fault_and_rows_arrive")


def test_nobody_is_given_up_by_starved_processes_and_a_flaky_network():
    """Every process stops again and again for up to 150 ms, as on a host with too few cores."""

    def scenario(seed: int) -> None:
        cluster = formed(seed, 6, **FLAKY)
        kernel = cluster.kernel
        end = kernel.now + 4

        def stall(name: str) -> None:
            kernel.pause(name)
            kernel.at(kernel.now + kernel.random.uniform(0, 0.15), lambda: go_on(name))

        def go_on(name: str) -> None:
            kernel.resume(name)
            if kernel.now < end:
                kernel.at(kernel.now + kernel.random.expovariate(10), lambda: stall(name))

        for name in cluster.names:
            stall(name)
        kernel.run(end)
        assert cluster.deaths == []

    run_seeds(scenario, 30, "test_nobody_is_given_up_by_starved_processes_and_a_flaky_network")


def test_partition_heals_and_all_agree_again():
    def scenario(seed: int) -> None:
        cluster = formed(seed, 6)
        kernel = cluster.kernel
        names = cluster.names.copy()
        kernel.random.shuffle(names)
        cut = kernel.random.randint(1, 3)
        kernel.network.partition(names[:cut], names[cut:])
        kernel.run(kernel.now + kernel.random.uniform(0.5, 3))
        cluster.change_facts(names[0], 77)
        kernel.network.heal()
        settle(cluster, 6)

    run_seeds(scenario, 40, "test_partition_heals_and_all_agree_again")


def test_one_way_block_kills_nobody_whom_others_reach():
    def scenario(seed: int) -> None:
        cluster = formed(seed, 6)
        kernel = cluster.kernel
        a, b = kernel.random.sample(cluster.names, 2)
        kernel.network.block(a, b)
        kernel.run(kernel.now + 3)
        assert cluster.deaths == []

    run_seeds(scenario, 20, "test_one_way_block_kills_nobody_whom_others_reach")


def test_member_that_was_stopped_is_given_up_and_refutes_when_it_goes_on():
    def scenario(seed: int) -> None:
        cluster = formed(seed, 6)
        kernel = cluster.kernel
        name = kernel.random.choice(cluster.names)
        others = [other for other in cluster.names if other != name]
        before = cluster.member(name).core.row.incarnation
        kernel.pause(name)
        kernel.run_until(lambda: cluster.know(Status.DEAD, name, others), kernel.now + 1, 0.05)
        kernel.run(kernel.now + kernel.random.uniform(0, 2))
        kernel.resume(name)
        settle(cluster, 3)
        assert cluster.member(name).core.row.incarnation > before
        assert {of for _, _, of in cluster.deaths} == {name}, "the sleeper judged the others"

    run_seeds(scenario, 40, "test_member_that_was_stopped_is_given_up_and_refutes_when_it_goes_on")


def test_restarted_member_is_believed_at_once_and_never_older_than_its_former_life():
    def scenario(seed: int) -> None:
        cluster = formed(seed, 5)
        kernel = cluster.kernel
        name = kernel.random.choice(cluster.names)
        if seed % 2:  # the former life had refuted something
            kernel.pause(name)
            kernel.run(kernel.now + 1)
            kernel.resume(name)
            settle(cluster, 3)
        former = cluster.member(name).core.row.incarnation
        kernel.crash(name)
        kernel.run(kernel.now + kernel.random.choice((0.05, 1.5)))
        kernel.restart(name)
        settle(cluster, 4)
        assert cluster.member(name).core.row.incarnation > former

    run_seeds(
        scenario,
        30,
        "test_restarted_member_is_believed_at_once_and_never_older_than_its_former_life",
    )


def test_member_whose_disk_was_wiped_rises_above_its_former_lives():
    def scenario(seed: int) -> None:
        cluster = formed(seed, 4)
        kernel = cluster.kernel
        for _ in range(3):
            kernel.restart("n2")
            kernel.run(kernel.now + 0.1)
        former = cluster.member("n2").core.row.incarnation
        kernel.crash("n2")
        kernel.hosts["n2"].disk.clear()
        cluster.forget_life("n2")
        kernel.restart("n2")
        settle(cluster, 4)
        assert cluster.member("n2").core.row.incarnation > former

    run_seeds(scenario, 10, "test_member_whose_disk_was_wiped_rises_above_its_former_lives")


def test_leaver_is_gone_for_good_and_nobody_calls_it_dead():
    def scenario(seed: int) -> None:
        cluster = formed(seed, 6, loss=0.05)
        kernel = cluster.kernel
        name = kernel.random.choice(cluster.names)
        cluster.leave(name)
        kernel.run(kernel.now + 0.3)
        assert cluster.member(name).finished
        kernel.crash(name)
        kernel.run_until(
            lambda: cluster.know(Status.LEFT, name, cluster.running()), kernel.now + 1, 0.05
        )
        assert cluster.deaths == []

    run_seeds(scenario, 30, "test_leaver_is_gone_for_good_and_nobody_calls_it_dead")


def test_tombstones_are_dropped_and_a_late_table_brings_nobody_back():
    """A member sleeps through a death and the tombstone; its old table must not bring it back."""

    def scenario(seed: int) -> None:
        cluster = formed(seed, 4)
        kernel = cluster.kernel
        sleeper, victim = kernel.random.sample(cluster.names, 2)
        others = [name for name in cluster.names if name not in (sleeper, victim)]
        kernel.pause(sleeper)
        kernel.crash(victim)
        kernel.run(kernel.now + 75)
        for name in others:
            assert cluster.member(name).core.status(victim) is None, "tombstone is kept for ever"
        kernel.resume(sleeper)
        for _ in range(40):
            kernel.run(kernel.now + 0.1)
            for name in others:
                assert cluster.member(name).core.status(victim) is None, "back from the dead"
        settle(cluster, 4)

    run_seeds(scenario, 3, "test_tombstones_are_dropped_and_a_late_table_brings_nobody_back")


def test_all_agree_after_any_mix_of_faults():
    def scenario(seed: int) -> None:
        faults = Network(**FLAKY, damage=0.02, damaged=damaged)
        kernel = Kernel(seed, faults)
        cluster = SimulatedCluster(kernel, 5)
        random = kernel.random
        for name in cluster.names:
            kernel.hosts[name].write_fails = 0.2
        for _ in range(8):
            kernel.run(kernel.now + random.uniform(0.05, 0.6))
            name, other = random.sample(cluster.names, 2)
            random.choice(possible_faults(cluster, name, other))()
        kernel.network.heal()
        faults.loss = faults.damage = faults.duplicate = faults.straggle = 0
        for name in cluster.names:
            kernel.resume(name)
            if not kernel.hosts[name].up:
                kernel.restart(name)
        settle(cluster, 8)

    run_seeds(scenario, 60, "test_all_agree_after_any_mix_of_faults")
