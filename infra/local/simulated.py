"""The simulated GPU library and tool that local nodes carry; built once, kept in the cache."""

import hashlib
import importlib.util
import os
from pathlib import Path

from gpufleet.paths import cache_dir, repo_root

from .command import HostError, run
from .files import locked, remove_tree
from .layer import BirthFile, Layer

# Character devices of the block kept for local use: they look like GPUs to a scheduler that
# counts device files, and can never be the real ones of a host that has some.
LOCAL_MAJOR = 120


def sources() -> Path:
    """Where the sources of the simulation lie."""
    return repo_root() / "sim"


def digest() -> str:
    """What the simulation is made from: the first 16 hex digits of SHA-256 over its sources."""
    summed = hashlib.sha256()
    for path in sorted(sources().rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            summed.update(f"{path.relative_to(sources())}\0".encode() + path.read_bytes() + b"\0")
    return summed.hexdigest()[:16]


def _library() -> Path:
    return cache_dir() / "sim" / digest() / "libnvidia-ml.so.1"


def library_ready() -> bool:
    """Whether the library of these sources is in the cache."""
    return _library().exists()


def ensure_library() -> Path:
    """Build libnvidia-ml.so.1 unless it is in the cache; returns its path. Takes seconds."""
    library = _library()
    folder = library.parent
    if library.exists():
        return library
    with locked(folder.with_suffix(".lock")):
        if not library.exists():
            building = folder.with_suffix(f".building.{os.getpid()}")
            building.mkdir(parents=True)
            run(["make", "-C", str(sources() / "nvml"), f"OUT={building}"], timeout=300)
            remove_tree(folder)
            building.rename(folder)
    return library


def lay_gpus(layer: Layer, description: str, gpus: int) -> None:
    """Give a node its simulated GPUs: library, tool, device files and the description of them."""
    layer.copy(ensure_library(), "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", 0o644)
    layer.link("libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so")
    layer.copy(sources() / "nvidia-smi", "/usr/bin/nvidia-smi")
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise HostError("the nvidia-ml-py package is missing; run setup/bootstrap")
    layer.copy(Path(found.origin), "/usr/lib/gpufleet-sim/python/pynvml.py", 0o644)
    fields = sources() / "nvidia_smi_fields.py"
    layer.copy(fields, f"/usr/lib/gpufleet-sim/python/{fields.name}", 0o644)
    layer.put(BirthFile("/etc/gpufleet/simgpu.conf", description.encode()))
    devices = [f"c /dev/nvidia{n} 0666 root root - {LOCAL_MAJOR}:{n}" for n in range(gpus)]
    devices.append(f"c /dev/nvidiactl 0666 root root - {LOCAL_MAJOR}:255")
    text = "# simulated GPUs of a gpufleet local node\n" + "\n".join(devices) + "\n"
    layer.put(BirthFile("/etc/tmpfiles.d/gpufleet-simgpu.conf", text.encode()))
