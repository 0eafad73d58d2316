"""Pulumi's Python language host, for where the vendor's own is absent.

The engine is built from its Go module, which does not hold the host that runs Python programs.
This one serves the same protocol with the SDK's own server, so a program runs as it does under the
vendor's: `Pulumi.yaml` names the folder, `__main__.py` in it is run. It is used only where the
vendor's is not found.

Called by the engine as `pulumi-language-python [OPTIONS] ENGINE_ADDRESS`; prints its port.
"""

import os
import runpy
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

MESSAGE_LIMIT = 400 * 1024 * 1024


class LanguageHost(LanguageServer):
    """Runs a Python program for the engine at the given address."""

    def __init__(self, engine: str) -> None:
        super().__init__(lambda: None)
        self._engine = engine

    def Handshake(self, request: Any, context: Any) -> Any:
        """Nothing is negotiated."""
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """Say which version this stands in for: the engine's, it does not tell them apart."""
        return plugin_pb2.PluginInfo(version="0.0.0")

    def Run(self, request: Any, context: Any) -> Any:
        """Run the program to its end."""
        folder = Path(request.info.program_directory or request.pwd)
        entry = request.info.entry_point
        program = folder / ("__main__.py" if entry in ("", ".") else entry)
        # What the SDK's server takes for the engine's address is the program's first argument.
        request.args.insert(0, self._engine)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        self.program = lambda: runpy.run_path(str(program), run_name="__main__")
        return super().Run(request, context)

    def InstallDependencies(self, request: Any, context: Any) -> Any:
        """Install nothing: the program's environment was made before."""
        return iter(())

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        """Ask nothing."""
        return language_pb2.RuntimeOptionsResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        """List nothing: the lock file does."""
        return language_pb2.GetProgramDependenciesResponse()


def main(arguments: list[str]) -> None:
    """Serve until the engine ends this process."""
    engine = next((x for x in arguments if not x.startswith("-")), "")
    options = [("grpc.max_receive_message_length", MESSAGE_LIMIT)]
    server = grpc.server(ThreadPoolExecutor(16), options=options)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageHost(engine), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    parent = os.getppid()
    # An engine that was killed cannot end its host.
    while os.getppid() == parent:
        server.wait_for_termination(timeout=0.5)


if __name__ == "__main__":
    main(sys.argv[1:])
