"""Facts under which each rule fails, keyed by rule id, with exactly what it says."""

from preflight_fixtures import UPLINK, Case, place, suppressing

from gpufleet.preflight.localgroups import (
    Cgroups,
    Disk,
    Forwarding,
    FrontPort,
    Gate,
    Holder,
    Identity,
    Kernel,
    Memory,
    Neighbour,
    Probe,
    Ranges,
    RealGpus,
    Resolver,
    Tools,
)
from gpufleet.preflight.needs import local_needs

TOOLS_LESS_NFT = {tool.name: "/x" for tool in local_needs().tools} | {"nft": None}

FAILS: dict[str, tuple[Case, ...]] = {
    "suppression.known": (
        Case(
            "preflight.suppress[0].rule: there is no such rule (seen 'local.disc'; allowed "
            "'local.disk' or another rule id; fix: write local.disk)",
            fields=suppressing("local.disc"),
        ),
        Case(
            "preflight.suppress[0].rule: there is no such rule (seen 'qqqq'; allowed a rule "
            "id; fix: take the id of a rule from `gpufleet check`)",
            fields=suppressing("qqqq"),
        ),
        Case(
            "preflight.suppress[0].rule: this rule cannot be suppressed (seen "
            "'suppression.current'; allowed a rule about the cluster or its host; fix: "
            "remove the entry and fix what the rule found)",
            fields=suppressing("suppression.current"),
        ),
        Case(
            "preflight.suppress[0].reason: a suppression without a reason does not hold "
            "(seen '            '; allowed a sentence that says why the rule does not matter "
            "here; fix: write the reason)",
            fields=suppressing("local.disk", reason=" " * 12),
        ),
    ),
    "suppression.current": (
        Case(
            "preflight.suppress[0].expires: the suppression of local.disk has expired and "
            "does not hold (seen 2026-11-30; allowed a date from 2026-12-01 on; fix: remove "
            "the entry, or look at the rule again and set a new date)",
            fields=suppressing("local.disk", "2026-11-30"),
        ),
    ),
    "local.root": (
        Case(
            "host: a local fleet can be made by root only (seen user id 1000; allowed user "
            "id 0; fix: run the same command with sudo)",
            (Identity(1000),),
        ),
    ),
    "local.kernel": (
        Case(
            "host: the kernel does not offer bridges (seen kernel 6.1: Unknown device type; "
            "allowed a kernel with bridges; fix: load the module, use a distribution kernel, "
            "or leave the container that forbids it)",
            (
                Kernel(
                    "6.1",
                    {
                        "overlayfs": Probe(True),
                        "bridges": Probe(False, "Unknown device type"),
                        "nft masquerading": Probe(None, "nft is not installed"),
                    },
                ),
            ),
        ),
    ),
    "local.cgroup2": (
        Case(
            "host: there is no cgroup v2 hierarchy (seen cgroup v1 only; allowed cgroup2 at "
            "/sys/fs/cgroup or /sys/fs/cgroup/unified, writable; fix: mount it so; "
            "docs/preflight.md#local-cgroup2 says how)",
            (Cgroups("v1", "/sys/fs/cgroup", False),),
        ),
        Case(
            "host: the cgroup v2 hierarchy cannot be written (seen /sys/fs/cgroup is "
            "read-only; allowed cgroup2 at /sys/fs/cgroup or /sys/fs/cgroup/unified, "
            "writable; fix: mount it so; docs/preflight.md#local-cgroup2 says how)",
            (Cgroups("unified", "/sys/fs/cgroup", False),),
        ),
    ),
    "local.tools": (
        Case(
            "host: nft is missing; it masquerades what nodes send to package mirrors (seen "
            "not on PATH; allowed nft on PATH; fix: install the package nftables, or run "
            "`make up`, which does)",
            (Tools(TOOLS_LESS_NFT),),
        ),
    ),
    "local.filesystem": (
        Case(
            "host: the state folder lies on a file system that cannot hold the changes of "
            "nodes (seen /state on overlay; allowed a local file system such as ext4, xfs or "
            "btrfs; fix: set GPUFLEET_STATE to a folder on such a file system)",
            (Disk(place(filesystem="overlay"), place(path="/cache")),),
        ),
        Case(
            "host: the state folder lies on a file system that cannot hold the changes of "
            "nodes (seen /state on fuse.sshfs; allowed a local file system such as ext4, xfs "
            "or btrfs; fix: set GPUFLEET_STATE to a folder on such a file system)",
            (Disk(place(filesystem="fuse.sshfs"), place(path="/cache")),),
        ),
        Case(
            "host: the folder of GPUFLEET_CACHE lies on a read-only file system (seen /cache "
            "on ext4; allowed a file system that can be written; fix: set GPUFLEET_CACHE to "
            "a folder that can be written, or remount it)",
            (Disk(place(), place(path="/cache", read_only=True)),),
        ),
    ),
    "local.disk": (
        Case(
            "host: too little disk for the state and cache of this fleet (seen 1467 MiB free "
            "at /state; allowed at least 1468 MiB (image 700 MiB + 3 new nodes x 256 MiB); "
            "fix: free disk space, lower pools[].count, or move GPUFLEET_STATE or "
            "GPUFLEET_CACHE)",
            (Disk(place(1467), place(1467, path="/cache")),),
        ),
        Case(
            "host: too little disk for the cache of this fleet (seen 699 MiB free at /cache; "
            "allowed at least 700 MiB (image 700 MiB); fix: free disk space, lower "
            "pools[].count, or move GPUFLEET_STATE or GPUFLEET_CACHE)\n"
            "host: too little disk for the state of this fleet (seen 767 MiB free at /state; "
            "allowed at least 768 MiB (3 new nodes x 256 MiB); fix: free disk space, lower "
            "pools[].count, or move GPUFLEET_STATE or GPUFLEET_CACHE)",
            (Disk(place(767), place(699, path="/cache", device=2)),),
        ),
    ),
    "local.memory": (
        Case(
            "host: too little memory for the nodes of this fleet (seen 871 MiB available; "
            "allowed at least 872 MiB (3 new nodes x 120 MiB + 512 MiB); fix: lower "
            "pools[].count, end what takes the memory, or use a larger host)",
            (Memory(871),),
        ),
    ),
    "local.range": (
        Case(
            "network.cidr: the range overlaps the host's address 10.9.0.0/16 on eth1 (seen "
            "10.9.0.0/24; allowed a private range apart from 10.9.0.0/16; fix: choose "
            "another network.cidr)\n"
            "network.cidr: the range overlaps the host's route 10.9.0.128/25 on tun0 (seen "
            "10.9.0.0/24; allowed a private range apart from 10.9.0.128/25; fix: choose "
            "another network.cidr)\n"
            "network.cidr: the range overlaps 10.9.0.0/28 of the local fleet other (seen "
            "10.9.0.0/24; allowed a private range apart from 10.9.0.0/28; fix: choose "
            "another network.cidr)",
            (
                Ranges(
                    (
                        Neighbour("address", "10.9.0.0/16", "eth1"),
                        Neighbour("address", "192.168.1.0/24", "eth0"),
                        Neighbour("route", "10.9.0.128/25", "tun0"),
                        Neighbour("fleet", "10.9.0.0/28", owner="other"),
                    )
                ),
            ),
        ),
    ),
    "local.front-port": (
        Case(
            "access.front_port: another program holds the port of the front (seen "
            "127.0.0.1:8400 held by nginx (process 7); allowed a port that is free on "
            "127.0.0.1; fix: choose another access.front_port, or end that program)",
            (FrontPort(8400, False, Holder(7, "nginx", False)),),
        ),
    ),
    "local.forwarding": (
        Case(
            f"host: another firewall drops what is forwarded from {UPLINK} and to {UPLINK} "
            "(seen nft chain ip filter FORWARD drops by default; allowed nft chain ip filter "
            f"FORWARD accepts {UPLINK} in both directions; fix: add accept rules for "
            f"interface {UPLINK} in and out to it (docs/preflight.md#local-forwarding has "
            "them), or set network.egress: none)",
            (Forwarding((Gate("nft chain ip filter FORWARD", False, False),)),),
        ),
        Case(
            f"host: another firewall drops what is forwarded to {UPLINK} (seen nft chain ip "
            "filter FORWARD drops by default; allowed nft chain ip filter FORWARD accepts "
            f"{UPLINK} in both directions; fix: add accept rules for interface {UPLINK} in "
            "and out to it (docs/preflight.md#local-forwarding has them), or set "
            "network.egress: none)",
            (Forwarding((Gate("nft chain ip filter FORWARD", True, False),)),),
        ),
    ),
    "local.dns": (
        Case(
            "host: nodes have no name server that they can reach (seen /etc/resolv.conf "
            "lists 127.0.0.53, ::1; allowed at least one IPv4 address outside the loopback "
            "range; fix: name one under network.dns)",
            (Resolver("/etc/resolv.conf", ("127.0.0.53", "::1")),),
        ),
        Case(
            "network.dns: a name server lies inside the cluster's own range (seen 10.9.0.9 "
            "in 10.9.0.0/24; allowed name servers outside network.cidr; fix: choose another "
            "network.cidr or another name server)",
            fields={"network": {"cidr": "10.9.0.0/24", "dns": ["10.9.0.9"]}},
        ),
    ),
    "local.real-gpus": (
        Case(
            "provider: this host has real GPUs, and a local fleet does not use them: its "
            "GPUs are simulated (seen /dev/nvidia0; allowed a host without GPUs, or provider "
            "baremetal; fix: set provider: baremetal to use them, or suppress "
            "local.real-gpus with a reason)",
            (RealGpus(("/dev/nvidia0",)),),
        ),
    ),
}
