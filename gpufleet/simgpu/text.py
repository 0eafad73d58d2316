"""The text form of a description: `render` and `parse`, inverse to each other."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from gpufleet.simgpu.keys import (
    GPU_KEYS,
    LINK_KEYS,
    MAX_GPUS,
    MAX_SWITCHES,
    SWITCH_KEYS,
    SYSTEM_KEYS,
    Key,
)
from gpufleet.simgpu.model import FORMAT_VERSION, GpuDescription, Link, NodeDescription

HEADER = """\
# SIMULATED GPUs of this node: nothing here is hardware.
# The simulated NVML library reads this file anew after every change: write the new text to
# another file and rename it over this one. To inject a fault, add to a [gpu N] section:
#   fault = lost | hang      throttle = thermal,power,hw_slowdown      xid = 79
#   ecc_uncorrectable = 1    remap_pending = on    nvlinks_down = 3    process = PID:MIB
"""

_HEADER = re.compile(r"gpu (\*|[0-9]{1,3})|switch [0-9]{1,3}|link [0-9]{1,3} [0-9]{1,3}")
_BLANK = " \t\r\v\f"
_REQUIRED = {
    "system": ("version", "gpus", "driver"),
    "gpu": ("name", "uuid", "pci_bus_id", "memory_mib"),
    "switch": ("pci_bus_id",),
    "link": (),
}
_KEYS: Mapping[str, Mapping[str, Key]] = {
    "system": {key.name: key for key in SYSTEM_KEYS},
    "gpu": {key.name: key for key in GPU_KEYS},
    "switch": {key.name: key for key in SWITCH_KEYS},
    "link": {key.name: key for key in LINK_KEYS},
}


@dataclass(frozen=True, slots=True)
class DescriptionProblem:
    """One fault of a description; `line` counts from 1, 0 when it is not of one line."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


class DescriptionError(ValueError):
    """The text is no description; `problems` has all that is wrong with it."""

    def __init__(self, problems: Sequence[DescriptionProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


@dataclass(slots=True)
class _Section:
    kind: str
    name: str
    line: int
    values: dict[str, Any] = field(default_factory=dict)
    """By attribute; a repeatable key's values are a tuple."""
    seen: set[str] = field(default_factory=set)


def _defaults() -> dict[str, Any]:
    return {f.name: f.default for f in fields(GpuDescription) if f.default is not MISSING}


def _lines(keys: Sequence[Key], values: Mapping[str, Any], where: str) -> Iterator[str]:
    for key in keys:
        if key.attribute not in values:
            continue
        value = values[key.attribute]
        for single in value if key.most > 1 else (value,):
            written = key.write(single)
            if "#" in written or key.read(written) != single:
                raise ValueError(f"{where}: {key.name} = {single!r} cannot be written")
            yield f"{key.name} = {written}"


def _gpu_values(gpu: GpuDescription) -> dict[str, Any]:
    values = {f.name: getattr(gpu, f.name) for f in fields(GpuDescription)}
    del values["index"]
    for name, default in _defaults().items():
        if values[name] == default:
            del values[name]
    if gpu.minor == gpu.index:
        del values["minor"]
    return values


def render(description: NodeDescription) -> str:
    """The text of `description`; what all GPUs have in common stands once, in `[gpu *]`.

    Raises ValueError for a value that the format cannot hold.
    """
    gpus = [_gpu_values(gpu) for gpu in description.gpus]
    common: dict[str, Any] = {}
    if len(gpus) > 1:
        common = {
            name: value
            for name, value in gpus[0].items()
            if name not in ("minor", "xids", "processes")
            and all(name in gpu and gpu[name] == value for gpu in gpus)
        }
    system: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "gpu_count": len(gpus),
        "node": description.node,
        "driver_version": description.driver_version,
        "nvml_version": description.nvml_version,
        "cuda_version": description.cuda_version,
        "fabric": description.fabric,
        "fabric_clique": description.fabric_clique,
    }
    system = {name: value for name, value in system.items() if value != ""}
    lines = [HEADER, "[system]", *_lines(SYSTEM_KEYS, system, "[system]")]
    for index, bus_id in enumerate(description.switches):
        lines += ["", f"[switch {index}]"]
        lines += _lines(SWITCH_KEYS, {"pci_bus_id": bus_id}, f"[switch {index}]")
    if common:
        lines += ["", "[gpu *]", *_lines(GPU_KEYS, common, "[gpu *]")]
    for gpu, values in zip(description.gpus, gpus, strict=True):
        own = {name: value for name, value in values.items() if name not in common}
        lines += ["", f"[gpu {gpu.index}]", *_lines(GPU_KEYS, own, f"[gpu {gpu.index}]")]
    for link in description.links:
        given: dict[str, Any] = {"nvlinks": link.nvlinks} if link.nvlinks else {}
        if link.path is not None:
            given["path"] = link.path
        name = f"[link {link.first} {link.second}]"
        lines += ["", name, *_lines(LINK_KEYS, given, name)]
    return "\n".join(lines) + "\n"


def _read_header(header: str) -> tuple[str, str] | None:
    if header == "system":
        return "system", ""
    found = re.fullmatch(
        r"(gpu (?:\*|[0-9]{1,3})|switch [0-9]{1,3}|link [0-9]{1,3} [0-9]{1,3})", header
    )
    if not found:
        return None
    kind, _, name = header.partition(" ")
    return kind, name


def _read_sections(text: str, problems: list[DescriptionProblem]) -> list[_Section]:
    sections: list[_Section] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.partition("#")[0].strip(_BLANK)
        if not line:
            continue
        if line.startswith("["):
            header = _read_header(line[1:-1].strip(_BLANK)) if line.endswith("]") else None
            if header is None:
                allowed = "[system], [gpu N], [gpu *], [switch N] or [link A B]"
                problems.append(DescriptionProblem(number, f"{line}: expected {allowed}"))
            sections.append(_Section(*(header or ("", "")), number))
            continue
        name, equals, value = (part.strip(_BLANK) for part in line.partition("="))
        if not equals:
            problems.append(
                DescriptionProblem(number, f"expected KEY = VALUE or [SECTION], seen {line}")
            )
        elif not sections:
            problems.append(DescriptionProblem(number, "a key before the first section"))
        elif sections[-1].kind:
            _read_key(sections[-1], name, value, number, problems)
    return sections


def _read_key(
    section: _Section, name: str, value: str, line: int, problems: list[DescriptionProblem]
) -> None:
    key = _KEYS[section.kind].get(name)
    if key is None:
        problems.append(DescriptionProblem(line, f"unknown key {name} in [{section.kind}]"))
        return
    if name in section.seen and key.most == 1:
        problems.append(DescriptionProblem(line, f"{name} stands twice in this section"))
        return
    section.seen.add(name)
    try:
        read = key.read(value)
    except ValueError as error:
        problems.append(DescriptionProblem(line, f"{name} = {value}: expected {error}"))
        return
    if key.most > 1:
        read = (*section.values.get(key.attribute, ()), read)
    section.values[key.attribute] = read


def _gpu(section: _Section, common: Mapping[str, Any]) -> GpuDescription:
    index = int(section.name)
    values = {**common, **section.values}
    for key in GPU_KEYS:
        if key.most > 1:
            values[key.attribute] = (
                *common.get(key.attribute, ()),
                *section.values.get(key.attribute, ()),
            )
    values["minor"] = section.values.get("minor", index)
    return GpuDescription(index=index, **values)


def _link(section: _Section) -> Link:
    first, second = (int(name) for name in section.name.split())
    return Link(first, second, **section.values)


def _check_order(sections: Sequence[_Section], problems: list[DescriptionProblem]) -> None:
    if not sections or sections[0].kind != "system":
        line = sections[0].line if sections else 0
        problems.append(DescriptionProblem(line, "[system] must be the first section"))
    seen: dict[tuple[str, ...], int] = {}
    gpus = 0
    for section in sections:
        identity = (
            section.kind,
            *sorted(str(int(n)) if n.isdigit() else n for n in section.name.split()),
        )
        if section.kind and identity in seen:
            problems.append(
                DescriptionProblem(
                    section.line, f"this section stands in line {seen[identity]} already"
                )
            )
        seen.setdefault(identity, section.line)
        gpus += section.kind == "gpu" and section.name != "*"
        if section.kind == "gpu" and section.name == "*" and gpus:
            problems.append(
                DescriptionProblem(section.line, "[gpu *] may stand once, before the first [gpu N]")
            )


def _check_required(
    section: _Section, common: _Section | None, problems: list[DescriptionProblem]
) -> None:
    if section.kind == "gpu" and section.name == "*":
        return
    shared = common.seen - {"pci_bus_id"} if common and section.kind == "gpu" else set()
    for name in _REQUIRED.get(section.kind, ()):
        if name not in section.seen | shared:
            problems.append(
                DescriptionProblem(section.line, f"the section that starts here has no {name}")
            )


def _check_node(
    node: NodeDescription, lines: Mapping[int, int], problems: list[DescriptionProblem]
) -> None:
    for gpu in node.gpus:
        line = lines[gpu.index]
        if gpu.memory_reserved_mib + gpu.memory_used_mib > gpu.memory_mib or not gpu.memory_mib:
            problems.append(
                DescriptionProblem(line, f"GPU {gpu.index} uses more memory than memory_mib")
            )
        for peer in node.gpus[: gpu.index]:
            for name in ("uuid", "serial", "pci_bus_id", "minor"):
                value = getattr(gpu, name)
                if value != "" and value == getattr(peer, name):
                    both = f"GPUs {peer.index} and {gpu.index}"
                    problems.append(DescriptionProblem(line, f"{both} have the same {name}"))
        direct = sum(link.nvlinks for link in node.links if gpu.index in (link.first, link.second))
        if direct and node.switches:
            problems.append(
                DescriptionProblem(line, f"GPU {gpu.index} has both [switch] and direct NVLinks")
            )
        elif direct > gpu.nvlinks:
            problems.append(
                DescriptionProblem(
                    line,
                    f"the [link] sections give GPU {gpu.index} {direct} NVLinks,"
                    f" it has {gpu.nvlinks}",
                )
            )


def parse(text: str) -> NodeDescription:
    """Reads the text of a description. Raises DescriptionError with all that is wrong."""
    problems: list[DescriptionProblem] = []
    sections = _read_sections(text, problems)
    _check_order(sections, problems)
    template = next((s for s in sections if s.kind == "gpu" and s.name == "*"), None)
    for section in sections:
        _check_required(section, template, problems)
    if problems:
        raise DescriptionError(problems)

    system = sections[0].values
    gpu_sections = sorted(
        (s for s in sections if s.kind == "gpu" and s.name != "*"), key=lambda s: int(s.name)
    )
    switches = [s for s in sections if s.kind == "switch"]
    links = [s for s in sections if s.kind == "link"]
    count = system["gpu_count"]
    if system["version"] != FORMAT_VERSION:
        message = f"version = {system['version']}: expected {FORMAT_VERSION}"
        problems.append(DescriptionProblem(sections[0].line, message))
    if [int(s.name) for s in gpu_sections] != list(range(count)):
        message = f"gpus = {count}: expected sections [gpu 0] to [gpu N] without gaps, as many"
        problems.append(DescriptionProblem(sections[0].line, message))
    if [int(s.name) for s in switches] != list(range(len(switches))) or len(
        switches
    ) > MAX_SWITCHES:
        message = f"switches are numbered in order from 0, at most {MAX_SWITCHES}"
        problems.append(DescriptionProblem(switches[0].line, message))
    for section in links:
        first, second = (int(name) for name in section.name.split())
        if first == second or not {first, second} <= set(range(min(count, MAX_GPUS))):
            message = f"[link {section.name}] does not name two GPUs of this node"
            problems.append(DescriptionProblem(section.line, message))
    if problems:
        raise DescriptionError(problems)

    common = template.values if template else {}
    node = NodeDescription(
        node=system.get("node", ""),
        driver_version=system["driver_version"],
        nvml_version=system.get("nvml_version", ""),
        cuda_version=system.get("cuda_version", ""),
        gpus=tuple(_gpu(section, common) for section in gpu_sections),
        switches=tuple(section.values["pci_bus_id"] for section in switches),
        links=tuple(_link(section) for section in links),
        fabric=system.get("fabric", "not_supported"),
        fabric_clique=system.get("fabric_clique", 0),
    )
    _check_node(node, {int(s.name): s.line for s in gpu_sections}, problems)
    if problems:
        raise DescriptionError(problems)
    return node
