"""The description: written and read without loss, the same to Python and to the C library."""

import random
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.simgpu import (
    DescriptionError,
    GpuDescription,
    Link,
    NodeDescription,
    Process,
    parse,
)
from gpufleet.simgpu.keys import GPU_KEYS, LINK_KEYS, SWITCH_KEYS, SYSTEM_KEYS
from simnode import SIM

counts = st.integers(0, 2**31 - 1)
mib = st.integers(0, 10_000)
domains = st.integers(0, 2**32 - 1)
NIL_UUID = "GPU-00000000-0000-0000-0000-000000000000"


@st.composite
def gpus(draw: st.DrawFn, index: int) -> GpuDescription:
    nvlinks = draw(st.integers(0, 36))
    return GpuDescription(
        index=index,
        uuid=f"GPU-{draw(st.uuids())}",
        name=draw(st.sampled_from(["NVIDIA H200 (simulated)", "simulated", "a simulated = [x]"])),
        pci_bus_id=f"{draw(domains):08X}:{index:02X}:{draw(st.integers(0, 31)):02X}.0",
        memory_mib=draw(st.integers(40_000, 1 << 24)),
        minor=255 - index if draw(st.booleans()) else index,
        serial=draw(st.sampled_from(["", str(index), f"S-{index}"])),
        architecture=draw(st.sampled_from([None, "ampere", "hopper"])),
        compute_capability=draw(st.sampled_from([None, "8.0", "12.1"])),
        pci_device_id=draw(st.integers(0, 2**32 - 1)),
        memory_reserved_mib=draw(mib),
        memory_used_mib=draw(mib),
        numa_node=draw(st.integers(0, 63)),
        cpu_affinity=tuple(sorted(draw(st.sets(st.integers(0, 1023), max_size=20)))),
        nvlinks=nvlinks,
        nvlinks_down=tuple(sorted(draw(st.sets(st.integers(0, 35), max_size=4)))),
        nvlink_crc_errors=draw(counts),
        power_mw=draw(st.integers(0, 10_000_000)),
        temperature=draw(st.integers(0, 200)),
        persistence=draw(st.booleans()),
        ecc=draw(st.booleans()),
        compute_mode=draw(st.sampled_from(["default", "prohibited", "exclusive_process"])),
        ecc_uncorrectable=draw(counts),
        fault=draw(st.sampled_from(["none", "lost"])),
        throttle=draw(st.sampled_from([(), ("thermal",), ("thermal", "power", "hw_slowdown")])),
        xids=tuple(draw(st.lists(st.integers(1, 999), max_size=4))),
        processes=tuple(
            draw(
                st.lists(
                    st.builds(Process, pid=st.integers(1, 2**31 - 1), memory_mib=mib), max_size=3
                )
            )
        ),
    )


@st.composite
def nodes(draw: st.DrawFn) -> NodeDescription:
    count = draw(st.integers(0, 5))
    chosen = tuple(draw(gpus(index)) for index in range(count))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    linked = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return NodeDescription(
        node="n-001",
        driver_version="580.105.08",
        nvml_version=draw(st.sampled_from(["", "13.580.105.08"])),
        cuda_version=draw(st.sampled_from(["", "13.0"])),
        gpus=chosen,
        switches=tuple(f"00000000:{n:02X}:00.0" for n in range(draw(st.integers(0, 3)))),
        links=tuple(Link(a, b, path=draw(st.sampled_from([None, "single"]))) for a, b in linked),
        fabric=draw(st.sampled_from(["not_supported", "completed"])),
        fabric_clique=draw(st.integers(0, 9)),
    )


@settings(deadline=None, max_examples=80)
@given(nodes())
def test_what_is_rendered_is_parsed_to_the_same(node: NodeDescription) -> None:
    assert parse(node.render()) == node


def test_description_says_that_it_is_simulated(h200: NodeDescription) -> None:
    assert h200.render().splitlines()[0].startswith("# SIMULATED GPUs")
    assert all("simulated" in gpu.name for gpu in h200.gpus)


def test_value_that_the_format_cannot_hold_is_not_written(h200: NodeDescription) -> None:
    for changes in ({"name": "NVIDIA H200"}, {"serial": "a#b"}, {"power_mw": -1}, {"xids": (0,)}):
        with pytest.raises(ValueError, match=r"."):
            h200.with_gpu(0, **changes).render()


Edit = Callable[[str], str]


def swap(old: str, new: str) -> Edit:
    return lambda text: text.replace(old, new, 1)


MALFORMED: dict[str, tuple[Edit, str]] = {
    "unknown key": (swap("numa_node = 1", "numanode = 1"), "unknown key numanode"),
    "unknown section": (swap("[gpu 1]", "[card 1]"), "[card 1]"),
    "section without end": (swap("[gpu 1]", "[gpu 1"), "[gpu 1"),
    "no equals sign": (swap("numa_node = 1", "numa_node 1"), "KEY = VALUE"),
    "key twice": (swap("numa_node = 1", "numa_node = 1\nnuma_node = 0"), "stands twice"),
    "gpu twice": (swap("[gpu 1]", "[gpu 0]"), "already"),
    "gap in the numbers": (swap("[gpu 1]", "[gpu 9]"), "without gaps"),
    "fewer GPUs than said": (lambda text: text[: text.index("[gpu 7]")], "gpus = 8"),
    "no system": (lambda text: text[text.index("[gpu *]") :], "[system] must be the first"),
    "nothing at all": (lambda text: "", "[system]"),
    "other version": (swap("version = 1", "version = 2"), "version"),
    "no driver": (swap("driver = ", "# "), "no driver"),
    "not simulated": (swap(" (simulated)", ""), "contains the word simulated"),
    "uuid": (swap("uuid = GPU-", "uuid = GPU-zz"), "GPU-xxxxxxxx"),
    "same uuid": (
        lambda text: re.sub(r"uuid = .*", f"uuid = {NIL_UUID}", text),
        "same uuid",
    ),
    "same bus id": (swap("00000000:43:00.0", "00000000:1B:00.0"), "same pci_bus_id"),
    "bus id": (swap("00000000:43:00.0", "00000000:43:20.0"), "a PCI bus id"),
    "number": (swap("numa_node = 1", "numa_node = 0x1"), "a whole number"),
    "number too large": (swap("temperature = 28", "temperature = 201"), "from 0 to 200"),
    "negative": (swap("temperature = 28", "temperature = -1"), "a whole number"),
    "watts": (swap("power_w = 74.58", "power_w = 74.5801"), "three decimals"),
    "cpus": (swap("cpu_affinity = 8-15", "cpu_affinity = 15-8"), "numbers and ranges"),
    "fault": (swap("numa_node = 1", "fault = broken"), "none"),
    "throttle": (swap("numa_node = 1", "throttle = thermal,cold"), "throttle"),
    "xid": (swap("numa_node = 1", "xid = 0"), "an Xid number"),
    "process": (swap("numa_node = 1", "process = 12"), "PID:MEMORY_MIB"),
    "memory": (swap("memory_reserved_mib = 700", "memory_reserved_mib = 200000"), "memory_mib"),
    "link to itself": (lambda text: text + "[link 1 1]\n", "link 1 1"),
    "link to nobody": (lambda text: text + "[link 1 9]\n", "9"),
    "direct and switched": (lambda text: text + "[link 0 1]\nnvlinks = 2\n", "both [switch]"),
    "switches out of order": (swap("[switch 1]", "[switch 7]"), "in order"),
    "template too late": (lambda text: text + "[gpu *]\n", "[gpu *]"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_description_is_refused_with_its_line(case: str, h200: NodeDescription) -> None:
    edit, message = MALFORMED[case]
    with pytest.raises(DescriptionError, match=re.escape(message)) as caught:
        parse(edit(h200.render()))
    assert all(problem.line > 0 or case == "nothing at all" for problem in caught.value.problems)


def test_all_faults_are_named_in_one_run(h200: NodeDescription) -> None:
    text = h200.render().replace("temperature = 28", "temperature = hot").replace("ecc", "ec")
    text = text.replace("numa_node = 1", "numanode = 1")
    with pytest.raises(DescriptionError) as caught:
        parse(text)
    assert len(caught.value.problems) == 5


def test_tables_of_keys_are_the_same_in_both_languages() -> None:
    source = (SIM / "nvml" / "conf_keys.c").read_text(encoding="utf-8")
    found = set(re.findall(r'^    (?:(?:GPU|SYSTEM)\w*\(|\{)"?(\w+)"?,?', source, re.MULTILINE))
    keys = {key.name for key in (*GPU_KEYS, *SYSTEM_KEYS, *SWITCH_KEYS, *LINK_KEYS)}
    assert found - {"NULL"} == keys


Judge = Callable[[Sequence[bytes]], list[bool]]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Says which texts the C library accepts; undefined behaviour in it fails the test."""
    folder = tmp_path_factory.mktemp("probe")
    probe = folder / "probe"
    sources = sorted(str(path) for path in (SIM / "nvml").glob("*.c"))
    subprocess.run(
        ["cc", "-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", f"-I{SIM / 'nvml'}", "-o", str(probe),
         str(Path(__file__).with_name("probe.c")), *sources, "-lpthread"],
        check=True, capture_output=True, timeout=180,
    )  # fmt: skip

    def run(texts: Sequence[bytes]) -> list[bool]:
        paths = [folder / f"{number}.conf" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(text)
        done = subprocess.run(
            [str(probe)],
            input="".join(f"{path}\n" for path in paths),
            capture_output=True, text=True, timeout=180, check=False, errors="replace",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        results = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
        assert [name for name, _ in results] == [str(path) for path in paths]
        refused = [line for line in done.stderr.splitlines() if line.startswith("gpufleet ")]
        assert all(re.search(r"\.conf(:\d+)?: .", line) for line in refused)
        return [code == "0" for _, code in results]

    return run


def accepted(text: bytes) -> bool:
    try:
        parse(text.decode("latin-1"))
    except DescriptionError:
        return False
    return True


def test_library_refuses_what_python_refuses(judge: Judge, h200: NodeDescription) -> None:
    texts = [edit(h200.render()).encode() for edit, _ in MALFORMED.values()]
    assert judge(texts) == [False] * len(texts)


_LIMITS = (
    "0 1 7 8 32 36 63 64 100 101 200 201 255 256 999 1000 10000 10001 50000 50001 65536 65537"
    " 16777216 16777217 2147483647 2147483648 140737488355327 140737488355328 9.0 9.00 0.001"
    " 10000.999 10001.0 1:1 0:1 2147483647:16777216 2147483648:1 0-1023 0-1024 35 0,35 0,36 on"
    " 0xFFFFFFFF 0x100000000 hopper lost thermal,power completed node 4.0"
)
LIMITS = (*_LIMITS.split(), *("x" * length for length in (29, 30, 31, 32)))
"""Values around the limits of all keys; each key accepts some of them."""


def test_library_accepts_the_limits_and_nothing_beyond(judge: Judge, h200: NodeDescription) -> None:
    plain = h200.render()
    texts = []
    for key in GPU_KEYS:
        for value in LIMITS:
            without = "\n".join(
                line for line in plain.splitlines() if not line.startswith(f"{key.name} =")
            )
            last = "[gpu 7]\n" + f"{key.name} = {value}\n"
            texts.append(without.replace("[gpu 7]\n", last, 1).encode())
    agreed = [accepted(text) for text in texts]
    assert judge(texts) == agreed
    assert 0 < sum(agreed) < len(agreed)


def mutate(chance: random.Random, text: bytes) -> bytes:
    """A few small changes such as a hand, an editor or a full disk makes."""
    for _ in range(chance.randint(1, 4)):
        lines = text.split(b"\n")
        at = chance.randrange(len(lines))
        kind = chance.randrange(7)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif kind == 2:
            lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
        elif kind == 3:
            spot = chance.randrange(len(lines[at]) + 1)
            lines[at] = (
                lines[at][:spot] + bytes([chance.choice(b"09=[]#-,.: xA*")]) + lines[at][spot:]
            )
        elif kind == 4:
            head, equals, _ = lines[at].partition(b"=")
            values = (b"-1", b"99999999999999999999", b"0x", b"1-", b",", b"nan", b"on", b"0")
            lines[at] = head + equals + chance.choice(values)
        elif kind == 5:
            lines = lines[: at + 1]
        else:
            lines[at], lines[-1] = lines[-1], lines[at]
        text = b"\n".join(lines)
    return text


def test_library_and_python_agree_on_damaged_descriptions(
    judge: Judge, h200: NodeDescription
) -> None:
    chance = random.Random(20261201)
    rich = h200.with_gpu(0, xids=(79, 48), processes=(Process(1, 5),), throttle=("power",))
    bridged = replace(rich, switches=(), links=(Link(0, 1, "single", 4), Link(2, 1)))
    texts = [mutate(chance, chance.choice((rich, bridged)).render().encode()) for _ in range(400)]
    agreed = [accepted(text) for text in texts]
    judged = judge(texts)
    different = [
        text.decode()
        for text, ours, theirs in zip(texts, agreed, judged, strict=True)
        if ours != theirs
    ]
    assert different == []
    assert 40 < sum(agreed) < 360


def test_library_survives_bytes_that_are_no_text(judge: Judge, h200: NodeDescription) -> None:
    chance = random.Random(7)
    plain = h200.render().encode()
    texts = [b"", b"\0", b"\xff\xfe", plain + b"\0", b"[" * 5000, b"=" * 900, b"[gpu *]" * 100]
    texts += [plain.replace(b"\n", b"\r\n"), plain.replace(b"simulated)", b"simulated) \xc3\xa9")]
    texts += [b"[system]\nversion = 1\ngpus = 64\ndriver = x\n" + b"[gpu 63]\n" * 70]
    for _ in range(60):
        damaged = bytearray(plain)
        for _ in range(chance.randint(1, 30)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        texts.append(bytes(damaged))
    judged = judge(texts)
    assert judged[7]
    assert judged[8]
    assert not any(judged[:7])
