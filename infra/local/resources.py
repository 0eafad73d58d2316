"""The kinds of resource of the local provider, as the engine sees them.

| kind      | is                                                  | id            |
|-----------|-----------------------------------------------------|---------------|
| Ground    | a cluster's state folder, SSH identity, shared disk | cluster       |
| Image     | the node image in the cache                         | digest        |
| Network   | bridge, namespace, way out                          | namespace     |
| Machine   | one node                                            | instance id   |
| Directory | names, SSH configuration and known host keys        | cluster       |
| Contract  | the fleet contract in the inventory folder          | path          |
"""

import hashlib
from pathlib import Path
from typing import Any

from gpufleet import fleet
from gpufleet.hostkeys import HostKeys
from gpufleet.paths import state_dir

from . import machine
from .command import HostError, run
from .directory import (
    Entry,
    hosts_block,
    publish_hosts,
    read_hosts,
    write_ssh_config,
)
from .files import remove_tree
from .image import ImageRecipe, ensure_image
from .layer import BirthFile
from .machine import MachineSpec
from .network import NetworkSpec, ensure_network, network_whole, remove_network
from .protocol import Properties, Resource


class Ground:
    """State folder, SSH identity and shared disk: made first, removed last."""

    replace_on = frozenset({"cluster"})
    delete_first = True
    computed: frozenset[str] = frozenset({"public_key", "shared"})

    def create(self, inputs: Properties) -> tuple[str, Properties]:
        """Make what is missing; a key that exists is kept."""
        folder = state_dir(inputs["cluster"])
        (folder / "ssh").mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
        (folder / "ssh").chmod(0o700)
        (folder / "fsx").mkdir(exist_ok=True)
        (folder / "fsx").chmod(0o1777)
        (folder / "nodes").mkdir(exist_ok=True)
        key = folder / "ssh/id_ed25519"
        if not key.with_suffix(".pub").exists():
            key.unlink(missing_ok=True)
            comment = f"gpufleet {inputs['cluster']}"
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(key)])
        public = key.with_suffix(".pub").read_text().strip()
        return inputs["cluster"], {**inputs, "public_key": public, "shared": str(folder / "fsx")}

    def read(self, outputs: Properties) -> Properties | None:
        """Gone when the key or the shared disk is gone."""
        folder = state_dir(outputs["cluster"])
        whole = (folder / "ssh/id_ed25519").exists() and (folder / "fsx").is_dir()
        return outputs if whole else None

    def update(self, inputs: Properties) -> Properties:
        """Nothing of it changes in place; completing it is harmless."""
        return self.create(inputs)[1]

    def delete(self, outputs: Properties) -> None:
        """Remove the folder with all that is left in it."""
        remove_tree(state_dir(outputs["cluster"]))


class Image:
    """The node image. Deleting the resource keeps the image: it belongs to the cache."""

    replace_on = frozenset({"digest"})
    delete_first = False
    computed: frozenset[str] = frozenset({"rootfs"})

    def create(self, inputs: Properties) -> tuple[str, Properties]:
        """Build the image unless the cache has it."""
        rootfs = ensure_image(_recipe(inputs))
        return inputs["digest"], {**inputs, "rootfs": str(rootfs)}

    def read(self, outputs: Properties) -> Properties | None:
        """Gone when the cache was cleared."""
        return outputs if _recipe(outputs).ready else None

    def update(self, inputs: Properties) -> Properties:
        """The digest covers every other input, so there is nothing to change in place."""
        return self.create(inputs)[1]

    def delete(self, outputs: Properties) -> None:
        """Keep it: other clusters may use it, and it can be removed with the cache."""


class Network:
    """The cluster's bridge and way out."""

    replace_on = frozenset({"cluster", "cidr"})
    delete_first = True
    computed: frozenset[str] = frozenset({"gateway", "namespace"})

    def create(self, inputs: Properties) -> tuple[str, Properties]:
        """Make or complete it."""
        spec = _network(inputs)
        ensure_network(spec)
        return spec.namespace, {**inputs, "namespace": spec.namespace, "gateway": spec.gateway}

    def read(self, outputs: Properties) -> Properties | None:
        """Gone when any part is: creating it again completes it and leaves the rest alone."""
        return outputs if network_whole(_network(outputs)) else None

    def update(self, inputs: Properties) -> Properties:
        """Open or close the way out."""
        return self.create(inputs)[1]

    def delete(self, outputs: Properties) -> None:
        """Remove it with its rules on the host."""
        remove_network(_network(outputs))


class Machine:
    """One node. Any change of its inputs is another machine."""

    replace_on = frozenset(
        {
            "birth_files",
            "cidr",
            "cluster",
            "dns",
            "gpus",
            "image",
            "network",
            "node",
            "public_key",
            "scratch_mount",
            "shared_mount",
            "sim_gpu",
            "sim_digest",
            "user",
        }
    )
    delete_first = True
    computed: frozenset[str] = frozenset({"address", "host_key", "machine_id", "provider_id"})

    def create(self, inputs: Properties) -> tuple[str, Properties]:
        """Make and boot it; returns when its SSH server answers."""
        made = machine.create(_machine(inputs))
        return made.provider_id, _machine_outputs(inputs, made)

    def read(self, outputs: Properties) -> Properties | None:
        """Gone when it does not run, or when another one runs under its name."""
        found = machine.find(_network(outputs), outputs["node"])
        if found is None or found.provider_id != outputs["provider_id"]:
            return None
        return _machine_outputs(outputs, found)

    def update(self, inputs: Properties) -> Properties:
        """Never asked for: every input is in replace_on."""
        raise HostError(f"machine {inputs['node']} cannot be changed in place")

    def delete(self, outputs: Properties) -> None:
        """End it and remove its disk."""
        machine.delete(_network(outputs), outputs["node"])


class Directory:
    """Names, SSH configuration and known host keys of the fleet."""

    replace_on = frozenset({"cluster"})
    delete_first = True
    computed: frozenset[str] = frozenset()

    def create(self, inputs: Properties) -> tuple[str, Properties]:
        """Publish who is where."""
        return inputs["cluster"], self.update(inputs)

    def read(self, outputs: Properties) -> Properties | None:
        """Gone when a node that runs has lost or changed its list of names."""
        block = hosts_block(_entries(outputs))
        for entry in _entries(outputs):
            text = read_hosts(outputs["cluster"], entry.name)
            if text is not None and block not in text:
                return None
        folder = state_dir(outputs["cluster"]) / "ssh"
        whole = (folder / "ssh_config").exists() and (folder / "known_hosts").exists()
        return outputs if whole else None

    def update(self, inputs: Properties) -> Properties:
        """Publish who is where."""
        entries = _entries(inputs)
        keys = HostKeys(state_dir(inputs["cluster"]) / "ssh")
        keys.publish(
            {
                node["name"]: (node["address"], node["provider_id"], node["host_key"])
                for node in inputs["nodes"]
            }
        )
        write_ssh_config(_network(inputs), inputs["user"], entries)
        publish_hosts(inputs["cluster"], entries)
        return inputs

    def delete(self, outputs: Properties) -> None:
        """Remove the SSH files; the nodes' own lists go with the nodes."""
        folder = state_dir(outputs["cluster"]) / "ssh"
        for name in ("ssh_config", "known_hosts"):
            (folder / name).unlink(missing_ok=True)


class Contract:
    """The fleet contract as a file, for Ansible and every later step."""

    replace_on = frozenset({"path"})
    delete_first = True
    computed: frozenset[str] = frozenset()

    def create(self, inputs: Properties) -> tuple[str, Properties]:
        """Write it."""
        return inputs["path"], self.update(inputs)

    def read(self, outputs: Properties) -> Properties | None:
        """Gone when the file is, or says something else."""
        try:
            now = fleet.dump(fleet.load_fleet(Path(outputs["path"])))
        except fleet.FleetError:
            return None
        return outputs if now == outputs["fleet"] else None

    def update(self, inputs: Properties) -> Properties:
        """Write it."""
        fleet.write_fleet(Path(inputs["path"]), fleet.validate(inputs["fleet"]))
        return inputs

    def delete(self, outputs: Properties) -> None:
        """Remove it."""
        Path(outputs["path"]).unlink(missing_ok=True)


KINDS: dict[str, Resource] = {
    "Contract": Contract(),
    "Directory": Directory(),
    "Ground": Ground(),
    "Image": Image(),
    "Machine": Machine(),
    "Network": Network(),
}


def _recipe(properties: Properties) -> ImageRecipe:
    return ImageRecipe(
        suite=properties["suite"],
        extra_packages=tuple(properties["extra_packages"]),
        user=properties["user"],
    )


def _network(properties: Properties) -> NetworkSpec:
    return NetworkSpec(
        properties["cluster"], properties["cidr"], properties.get("egress", "mirrors")
    )


def _machine(inputs: Properties) -> MachineSpec:
    return MachineSpec(
        network=_network(inputs),
        node=inputs["node"],
        image=Path(inputs["image"]),
        user=inputs["user"],
        shared_mount=inputs["shared_mount"],
        scratch_mount=inputs["scratch_mount"],
        dns=tuple(inputs["dns"]),
        sim_gpu=inputs["sim_gpu"],
        gpus=inputs["gpus"],
        birth_files=tuple(_birth_file(x) for x in inputs["birth_files"]),
    )


def _birth_file(row: Properties) -> BirthFile:
    content = Path(row["source"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != row["sha256"]:
        raise HostError(f"{row['source']} changed while the fleet was being made; run it again")
    return BirthFile(row["path"], content, row["mode"], row["owner"], row["group"])


def _machine_outputs(inputs: Properties, made: machine.Machine) -> Properties:
    return {
        **inputs,
        "address": made.address,
        "host_key": made.host_key,
        "machine_id": made.machine_id,
        "provider_id": made.provider_id,
    }


def _entries(properties: dict[str, Any]) -> list[Entry]:
    return [Entry(node["name"], node["address"]) for node in properties["nodes"]]
