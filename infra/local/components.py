"""A local fleet as Pulumi resources: what the spec says, in the terms of the local provider."""

import hashlib
from typing import Any

import pulumi

from gpufleet import catalog, fleet, simgpu
from gpufleet.filemode import parse_mode
from gpufleet.paths import fleet_file, inventory_dir, state_dir
from gpufleet.spec import ClusterSpec, NodePlan

from .image import ImageRecipe
from .resources import KINDS
from .simulated import digest as sim_digest

PACKAGE = "gpufleet-local:index"


class LocalResource(pulumi.CustomResource):
    """A resource of the local provider; its kind is the last part of its type."""

    def __init__(
        self, kind: str, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions
    ) -> None:
        properties = {**inputs, **dict.fromkeys(KINDS[kind].computed)}
        super().__init__(f"{PACKAGE}:{kind}", name, properties, opts)

    def output(self, name: str) -> pulumi.Output[Any]:
        """One of the properties, known once the resource is made."""
        value: pulumi.Output[Any] = getattr(self, name)
        return value


class LocalFleet(pulumi.ComponentResource):
    """Ground, image, network, machines, directory and contract of one local cluster."""

    contract: pulumi.Output[dict[str, Any]]

    def __init__(self, spec: ClusterSpec) -> None:
        super().__init__(f"{PACKAGE}:LocalFleet", spec.name)
        self._spec = spec
        self._common = {"cluster": spec.name, "cidr": str(spec.network.cidr)}
        self._ground = self._add("Ground", "ground", {"cluster": spec.name})
        recipe = ImageRecipe(
            suite=spec.image.suite,
            extra_packages=tuple(spec.image.extra_packages),
            user=spec.access.user,
        )
        self._image = self._add(
            "Image",
            "image",
            {
                "digest": recipe.digest,
                "suite": recipe.suite,
                "extra_packages": list(recipe.extra_packages),
                "user": recipe.user,
            },
        )
        self._rootfs = str(recipe.rootfs)
        self._network = self._add(
            "Network",
            "network",
            {**self._common, "egress": spec.network.egress},
            after=[self._ground],
        )
        nodes = [self._node(plan) for plan in spec.nodes()]
        directory = self._add(
            "Directory",
            "directory",
            {
                **self._common,
                "user": spec.access.user,
                "nodes": [
                    {key: node[key] for key in ("name", "address", "provider_id", "host_key")}
                    for node in nodes
                ],
            },
            after=[self._network],
        )
        self.contract = pulumi.Output.all(*(pulumi.Output.from_input(x) for x in nodes)).apply(
            self._contract
        )
        self._add(
            "Contract",
            "contract",
            {"path": str(fleet_file(spec.name)), "fleet": self.contract},
            after=[directory],
        )
        self.register_outputs({"contract": self.contract})

    def _add(
        self,
        kind: str,
        name: str,
        inputs: dict[str, Any],
        after: list[pulumi.Resource] | None = None,
    ) -> LocalResource:
        options = pulumi.ResourceOptions(parent=self, depends_on=after or [])
        return LocalResource(kind, name, inputs, options)

    def _node(self, plan: NodePlan) -> dict[str, Any]:
        """Declare one machine; returns its row of the contract, with outputs in it."""
        spec, itype = self._spec, catalog.get(plan.instance_type)
        described = simgpu.describe(spec.name, plan.name, itype)
        machine = self._add(
            "Machine",
            plan.name,
            {
                **self._common,
                "network": self._network.output("namespace"),
                "node": plan.name,
                "image": self._rootfs,
                "user": spec.access.user,
                "public_key": self._ground.output("public_key"),
                "shared_mount": spec.storage.shared.mount,
                "scratch_mount": spec.storage.scratch.mount,
                "dns": [str(address) for address in spec.network.dns],
                "gpus": len(described.gpus),
                "sim_gpu": described.render() if described.gpus else "",
                "sim_digest": sim_digest() if described.gpus else "",
                "birth_files": self._birth_files(),
            },
            after=[self._image],
        )
        return {
            "name": plan.name,
            "address": machine.output("address"),
            "provider_id": machine.output("provider_id"),
            "host_key": machine.output("host_key"),
            "instance_type": plan.instance_type,
            "pool": plan.pool,
            "partition": plan.partition,
            "vcpus": itype.vcpus,
            "memory_mib": itype.memory_mib,
            "gpus": [fleet_gpu(gpu) for gpu in described.gpus],
            "nics": [
                {"name": nic.name, "fabric": nic.fabric, "rate_gbps": nic.rate_gbps}
                for nic in itype.nics
            ],
            "scratch": [{"path": spec.storage.scratch.mount, "size_gb": None}],
            "mounts": [self._shared()],
            "failure_domain": plan.name,
            "simulated": True,
        }

    def _birth_files(self) -> list[dict[str, Any]]:
        """The spec's files; contents stay out of the state, their digests are in it."""
        folder = inventory_dir(self._spec.name)
        return [
            {
                "path": str(file.path),
                "source": str(folder / file.source),
                "sha256": hashlib.sha256((folder / file.source).read_bytes()).hexdigest(),
                "mode": parse_mode(file.mode),
                "owner": file.owner,
                "group": file.group,
            }
            for file in self._spec.files
        ]

    def _shared(self) -> dict[str, Any]:
        source = str(state_dir(self._spec.name) / "fsx")
        return {"path": self._spec.storage.shared.mount, "kind": "posix", "source": source}

    def _contract(self, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        spec, folder = self._spec, state_dir(self._spec.name) / "ssh"
        value = {
            "schema_version": fleet.SCHEMA_VERSION,
            "cluster": spec.name,
            "provider": spec.provider,
            "stack": spec.stack,
            "simulated": True,
            "access": {
                "user": spec.access.user,
                "ssh_config": str(folder / "ssh_config"),
                "known_hosts": str(folder / "known_hosts"),
            },
            "shared_mounts": [self._shared()],
            "nodes": nodes,
        }
        return fleet.dump(fleet.validate(value))


def fleet_gpu(gpu: simgpu.GpuDescription) -> dict[str, Any]:
    """A described GPU as the contract states it."""
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": gpu.name,
        "memory_mib": gpu.memory_mib,
        "numa_node": gpu.numa_node,
        "pci_bus_id": gpu.pci_bus_id,
        "link_class": gpu.link_class,
    }
