"""The Pulumi program: cluster spec in, fleet contract out. The stack's name is the cluster's."""

import pulumi

from gpufleet.paths import inventory_dir
from gpufleet.spec import SpecError, load_spec
from infra.providers import build

path = inventory_dir(pulumi.get_stack()) / "cluster.yaml"
try:
    spec = load_spec(path)
except SpecError as error:
    for problem in error.problems:
        pulumi.log.error(str(problem))
    count = len(error.problems)
    raise pulumi.RunError(f"{count} problems in {path}; nothing was touched") from error
pulumi.export("fleet", build(spec))
