"""Child process of the tests: calls nvidia-ml-py as it is told, one JSON line a call.

In: {"call": NAME, "arguments": [...]}, an argument {"gpu": N} standing for the handle of that GPU
that was taken at the start. Out: {"value": ...} or {"error": ...}.
"""

import ctypes
import json
import sys
import threading
from typing import Any

import pynvml


class Child:
    def __init__(self) -> None:
        self.handles: dict[int, Any] = {}
        self.event_set: Any = None

    def start(self) -> int:
        """Initialises and takes the handles of all GPUs that are to be had."""
        pynvml.nvmlInit()
        count = int(pynvml.nvmlDeviceGetCount())
        for index in range(count):
            try:
                self.handles[index] = pynvml.nvmlDeviceGetHandleByIndex(index)
            except pynvml.NVMLError_GpuIsLost:
                continue
        return count

    def watch(self, types: int) -> None:
        """Makes a new event set of all GPUs."""
        self.event_set = pynvml.nvmlEventSetCreate()
        for handle in self.handles.values():
            pynvml.nvmlDeviceRegisterEvents(handle, types, self.event_set)

    def wait(self, timeout_ms: int) -> dict[str, int]:
        data = pynvml.nvmlEventSetWait_v2(self.event_set, timeout_ms)
        return {"gpu": self.number(data.device), "type": data.eventType, "data": data.eventData}

    def number(self, handle: Any) -> int:
        address = ctypes.addressof(handle.contents)
        for index, known in self.handles.items():
            if ctypes.addressof(known.contents) == address:
                return index
        raise LookupError("a handle that no GPU has")

    def memory_v2(self, gpu: int) -> Any:
        return pynvml.nvmlDeviceGetMemoryInfo(self.handles[gpu], version=pynvml.nvmlMemory_v2)

    def fabric(self, gpu: int, version: int) -> Any:
        kind = {2: pynvml.c_nvmlGpuFabricInfo_v2_t, 3: pynvml.c_nvmlGpuFabricInfo_v3_t}[version]
        info = kind()
        pynvml.nvmlDeviceGetGpuFabricInfoV(self.handles[gpu], ctypes.byref(info))
        return info

    def wrong_version(self, gpu: int) -> None:
        pynvml.nvmlDeviceGetMemoryInfo(self.handles[gpu], version=0x0300_0028)

    def field(self, gpu: int, number: int, scope: int = 0) -> Any:
        value = pynvml.nvmlDeviceGetFieldValues(self.handles[gpu], [(number, scope)])[0]
        if value.nvmlReturn != pynvml.NVML_SUCCESS:
            raise pynvml.NVMLError(value.nvmlReturn)
        return value.value.ullVal

    def hammer(self, threads: int, calls: int) -> list[str]:
        """Every thread queries all GPUs, initialising and shutting down on its own; its errors."""
        errors: list[str] = []

        def work() -> None:
            try:
                for _ in range(calls):
                    pynvml.nvmlInit()
                    for handle in self.handles.values():
                        name = pynvml.nvmlDeviceGetName(handle)
                        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
                        if "simulated" not in name or memory.used + memory.free != memory.total:
                            errors.append(f"{name} {memory.used} {memory.free} {memory.total}")
                    pynvml.nvmlShutdown()
            except pynvml.NVMLError as error:
                errors.append(str(error))

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return errors

    def plain(self, value: Any) -> Any:
        """What JSON can hold of a result."""
        if isinstance(value, ctypes.Structure):
            return {name: self.plain(getattr(value, name)) for name, *_ in value._fields_}
        if isinstance(value, ctypes.Array):
            return [self.plain(item) for item in value]
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        if isinstance(value, bytes):
            return value.decode()
        if hasattr(value, "contents"):
            return {"gpu": self.number(value)}
        if hasattr(value, "__dict__"):
            return vars(value)
        return value

    def argument(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self.handles[value["gpu"]]
        return value.encode() if isinstance(value, str) else value

    def answer(self, call: str, arguments: list[Any]) -> dict[str, Any]:
        try:
            if hasattr(self, call):
                return {"value": self.plain(getattr(self, call)(*arguments))}
            function = getattr(pynvml, call)
            return {"value": self.plain(function(*map(self.argument, arguments)))}
        except pynvml.NVMLError as error:
            return {"error": str(error)}


def main() -> None:
    child = Child()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(child.answer(request["call"], request["arguments"])), flush=True)


if __name__ == "__main__":
    main()
