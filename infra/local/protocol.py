"""The Pulumi provider protocol over gRPC, for providers whose resources are plain objects.

A real provider plugin rather than a dynamic provider: the latter stores pickled code in every
resource's state, so a change of code would look like a change of all nodes.

Only the parts of the protocol that a provider of custom resources needs. Shapes: properties are
JSON-like dicts; an input that is not known yet during a preview is the UNKNOWN string.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from .rolling import RollingGate

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# Replacements wait for their turn in a worker each; the one whose turn it is must find another.
WORKERS = 2048
MESSAGE_LIMIT = 400 * 1024 * 1024

Properties = dict[str, Any]


class Resource(Protocol):
    """What a kind of resource has to offer. All calls may be repeated after a crash."""

    replace_on: frozenset[str]
    """Inputs whose change needs a new resource; other changes are updates in place."""

    delete_first: bool
    """Whether the old one has to go before its replacement can be made."""

    computed: frozenset[str]
    """Outputs that are known only once it is made."""

    def create(self, inputs: Properties) -> tuple[str, Properties]:
        """Make it; returns its id and outputs (inputs included)."""

    def read(self, outputs: Properties) -> Properties | None:
        """Its outputs as they are now, or None where it no longer exists whole."""

    def update(self, inputs: Properties) -> Properties:
        """Bring it to the new inputs in place; returns its outputs."""

    def delete(self, outputs: Properties) -> None:
        """Remove it; absent is fine."""


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Names of the inputs that differ; one not known yet counts as different."""
    names = sorted({*old, *new})
    return [x for x in names if old.get(x) != new.get(x) or contains_unknown(new.get(x))]


def contains_unknown(value: Any) -> bool:
    """Whether any part of a value is not known yet."""
    if isinstance(value, dict):
        return any(contains_unknown(part) for part in value.values())
    if isinstance(value, list):
        return any(contains_unknown(part) for part in value)
    return bool(value == UNKNOWN)


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Answers the engine for a table of resource kinds."""

    def __init__(self, version: str, kinds: Mapping[str, Resource]) -> None:
        self._version = version
        self._kinds = kinds
        self._gate = RollingGate()

    def Handshake(self, request: Any, context: Any) -> Any:
        """Say which features of the protocol are spoken."""
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=False, accept_resources=False, accept_outputs=False
        )

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """Name the plugin's version."""
        return plugin_pb2.PluginInfo(version=self._version)

    def GetSchema(self, request: Any, context: Any) -> Any:
        """Give the least schema: the program's classes carry the types."""
        schema = {"name": "gpufleet-local", "version": self._version}
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema))

    def CheckConfig(self, request: Any, context: Any) -> Any:
        """Take the configuration as it is: the provider has none."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        """Report no change of configuration."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:
        """Accept: there is nothing to configure."""
        return provider_pb2.ConfigureResponse(acceptSecrets=False, supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        """Take the inputs as they are: the cluster spec has been validated by the program."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: Any, context: Any) -> Any:
        """Say what differs, and whether that needs a new resource."""
        kind = self._kind(request.urn)
        diffs = changed(_dict(request.old_inputs), _dict(request.news))
        replaces = [name for name in diffs if name in kind.replace_on]
        if replaces and kind.delete_first:
            self._gate.announce(request.urn)
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if diffs else response.DIFF_NONE,
            diffs=diffs,
            replaces=replaces,
            deleteBeforeReplace=bool(replaces) and kind.delete_first,
        )

    def Create(self, request: Any, context: Any) -> Any:
        """Make a resource; in a preview, only say what would be known of it."""
        if request.preview:
            return provider_pb2.CreateResponse(
                properties=self._foreseen(request.urn, request.properties)
            )

        def act() -> Any:
            identifier, outputs = self._kind(request.urn).create(_dict(request.properties))
            return provider_pb2.CreateResponse(id=identifier, properties=_struct(outputs))

        try:
            response = _guarded(context, act)
        except BaseException:
            self._gate.end(request.urn, failed=True)
            raise
        self._gate.end(request.urn, failed=False)
        return response

    def Read(self, request: Any, context: Any) -> Any:
        """Look at a resource as it is now; no id in the answer says that it is gone."""

        def act() -> Any:
            outputs = self._kind(request.urn).read(_dict(request.properties))
            if outputs is None:
                return provider_pb2.ReadResponse()
            return provider_pb2.ReadResponse(
                id=request.id, properties=_struct(outputs), inputs=request.inputs
            )

        return _guarded(context, act)

    def Update(self, request: Any, context: Any) -> Any:
        """Change a resource in place; in a preview, only say what would be known of it."""
        if request.preview:
            return provider_pb2.UpdateResponse(properties=self._foreseen(request.urn, request.news))

        def act() -> Any:
            outputs = self._kind(request.urn).update(_dict(request.news))
            return provider_pb2.UpdateResponse(properties=_struct(outputs))

        return _guarded(context, act)

    def Delete(self, request: Any, context: Any) -> Any:
        """Remove a resource."""

        def act() -> Any:
            self._gate.begin(request.urn)
            self._kind(request.urn).delete(_dict(request.properties))
            return empty_pb2.Empty()

        try:
            return _guarded(context, act)
        except BaseException:
            self._gate.end(request.urn, failed=True)
            raise

    def Cancel(self, request: Any, context: Any) -> Any:
        """Start no further replacement; a call under way ends by its own deadline."""
        self._gate.stop("the operation was cancelled")
        return empty_pb2.Empty()

    def Attach(self, request: Any, context: Any) -> Any:
        """Accept a debugger's engine."""
        return empty_pb2.Empty()

    def _foreseen(self, urn: str, inputs: struct_pb2.Struct) -> struct_pb2.Struct:
        return _struct({**_dict(inputs), **dict.fromkeys(self._kind(urn).computed, UNKNOWN)})

    def _kind(self, urn: str) -> Resource:
        type_token = urn.split("::")[2].split("$")[-1]
        return self._kinds[type_token.rsplit(":", 1)[-1]]


def serve(version: str, kinds: Mapping[str, Resource]) -> None:
    """Run the plugin until the engine ends it; prints the port that the engine waits for."""
    options = [
        ("grpc.max_receive_message_length", MESSAGE_LIMIT),
        ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ]
    server = grpc.server(ThreadPoolExecutor(WORKERS), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(version, kinds), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    parent = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # An engine that was killed cannot say goodbye; without it there is nothing to serve.
    while os.getppid() == parent:
        server.wait_for_termination(timeout=0.5)
    os._exit(0)


def _guarded(context: Any, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except Exception as error:  # the engine shows the text beside the resource it belongs to
        context.abort(grpc.StatusCode.UNKNOWN, f"{error}" or repr(error))


def _dict(struct: struct_pb2.Struct) -> Properties:
    return {name: _plain(value) for name, value in json_format.MessageToDict(struct).items()}


def _plain(value: Any) -> Any:
    # Protobuf knows doubles only; whole numbers come back as the integers they were.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _struct(properties: Properties) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    json_format.ParseDict(properties, struct)
    return struct
