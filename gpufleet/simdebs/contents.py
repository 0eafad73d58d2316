"""What the simulated packages hold besides their names: the few programs that roles talk to."""

from collections.abc import Mapping
from importlib.resources import files as resources

from .deb import File

FOLDER = "usr/lib/gpufleet-sim"
UNITS = "usr/lib/systemd/system"


def _text(name: str) -> str:
    return (resources(__package__) / "stubs" / name).read_text()


def _program(name: str, version: str) -> File:
    return File(_text(name).replace("@VERSION@", version), 0o755)


def _unit(name: str) -> File:
    return File(_text(name))


def files_of(role: str, version: str) -> Mapping[str, File]:
    """Files of a package by what it is (a row's `stub` in `packages.yaml`); version of its pin."""
    if role == "module":
        return {
            f"{FOLDER}/module-version": File(f"{version}\n"),
            f"{FOLDER}/load-module": _program("load-module", version),
            f"{UNITS}/gpufleet-sim-module.service": _unit("gpufleet-sim-module.service"),
            f"{UNITS}/sysinit.target.wants/gpufleet-sim-module.service": File(
                link="../gpufleet-sim-module.service"
            ),
        }
    if role == "fabricmanager":
        return {
            "usr/bin/nv-fabricmanager": _program("nv-fabricmanager", version),
            f"{UNITS}/nvidia-fabricmanager.service": _unit("nvidia-fabricmanager.service"),
        }
    if role == "persistence":
        return {
            "usr/bin/nvidia-persistenced": _program("daemon", version),
            f"{UNITS}/nvidia-persistenced.service": _unit("nvidia-persistenced.service"),
        }
    if role == "toolkit":
        return {"usr/bin/nvidia-ctk": _program("nvidia-ctk", version)}
    if role == "dcgm":
        return {
            "usr/bin/dcgmi": _program("dcgmi", version),
            "usr/bin/nv-hostengine": _program("daemon", version),
            f"{UNITS}/nvidia-dcgm.service": _unit("nvidia-dcgm.service"),
        }
    if role == "cuda":
        series = ".".join(version.split(".")[:2])
        return {
            f"usr/local/cuda-{series}/version.json": File(
                f'{{"cuda": {{"name": "CUDA SDK (simulated)", "version": "{version}"}}}}\n'
            ),
            f"usr/local/cuda-{series}/bin/nvcc": _program("nvcc", version),
        }
    return {}
