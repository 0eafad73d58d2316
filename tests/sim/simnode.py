"""A simulated node for tests: a description file, and processes that see its GPUs."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpufleet.simgpu import NodeDescription

HERE = Path(__file__).parent
SIM = HERE.parent.parent / "sim"
ANSWER_S = 20.0
"""Most seconds that a call which does not block may take on a busy machine."""


@dataclass(frozen=True, slots=True)
class Type:
    """An instance type as gpufleet.simgpu sees it."""

    name: str = "sim.h200x8"
    vcpus: int = 16
    gpus: int = 8
    gpu_model: str | None = "H200"
    gpu_memory_mib: int | None = 143771
    nvlink: str | None = "NV18"
    numa_nodes: int = 2


class NvmlCallError(Exception):
    """A call of NVML failed; the text is nvidia-ml-py's."""


class Session:
    """A child process with NVML initialised on the node's description."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "nvml_child.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate(timeout=ANSWER_S)

    def send(self, call: str, *arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"call": call, "arguments": arguments}) + "\n")
        self.process.stdin.flush()

    def answered(self, within_s: float) -> bool:
        """Whether the answer of the last call is there, waiting at most so long for it."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], within_s)[0])

    def receive(self) -> Any:
        assert self.process.stdout is not None
        assert self.answered(ANSWER_S), "no answer"
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise NvmlCallError(answer["error"])
        return answer["value"]

    def call(self, call: str, *arguments: Any) -> Any:
        self.send(call, *arguments)
        return self.receive()

    def get(self, name: str, gpu: int, *arguments: Any) -> Any:
        """nvmlDeviceGetNAME of a GPU."""
        return self.call("nvmlDeviceGet" + name, {"gpu": gpu}, *arguments)


@dataclass(slots=True)
class SimNode:
    """A description file that can be edited, and what runs against it."""

    library: Path
    file: Path

    def write(self, description: NodeDescription | str) -> None:
        """Replaces the description in one step, as its header tells users to."""
        text = description if isinstance(description, str) else description.render()
        new = self.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.rename(self.file)

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.library.parent),
            "GPUFLEET_SIMGPU_CONF": str(self.file),
        }

    @contextmanager
    def session(self) -> Iterator[Session]:
        with Session(self.environment()) as session:
            session.call("start")
            yield session

    def init(self) -> tuple[str | None, str]:
        """The error of nvmlInit, None when it works, and what was written to stderr."""
        code = (
            "import pynvml\n"
            "try: pynvml.nvmlInit()\n"
            "except pynvml.NVMLError as error: print(error, end='')"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, env=self.environment(), timeout=ANSWER_S, check=True,
        )  # fmt: skip
        return done.stdout or None, done.stderr

    def smi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-B", str(SIM / "nvidia-smi"), *arguments],
            capture_output=True, text=True, env=self.environment(), timeout=ANSWER_S, check=False,
        )  # fmt: skip
