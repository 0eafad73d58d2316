"""Module `gpufleet.node.etcd_member`: how this node becomes a member of its etcd cluster."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.node.plugins.module_utils.atomic import replace_file

DOCUMENTATION = r"""
module: etcd_member
short_description: How this node becomes a member of its etcd cluster
description:
  - A member that has its data is left alone, always. Data is never removed.
  - A member without data whose cluster answers is replaced - its old entry is removed, a new one is
    added, and it will start as a member of an existing cluster.
  - A member without data whose cluster does not answer starts a new cluster only when C(bootstrap)
    says so. Otherwise the module fails - two halves that both begin anew lose what was stored.
options:
  name: {description: Name of this member., type: str, required: true}
  members: {description: Name to peer address of all members., type: dict, required: true}
  endpoints:
    description: Client addresses of the other members.
    type: list
    elements: str
    required: true
  data_dir: {description: Where the member keeps its data., type: path, required: true}
  environment_file: {description: Written for the first start., type: path, required: true}
  token: {description: Token of a new cluster., type: str, required: true}
  bootstrap: {description: Start a new cluster., type: bool, default: false}
"""

RETURN = r"""
decision:
  description: C(keep), C(replace) or C(bootstrap).
  type: str
  returned: success
"""


class Refused(Exception):
    """It cannot become a member; the text says why."""


class Cluster:
    """What answers at the endpoints, by etcd's JSON gateway."""

    def __init__(self, endpoints):
        self.endpoints = endpoints
        self.failures = []
        # Members are reached as they reach each other, never by a proxy of the node's environment.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, path, value):
        """Answer of the first endpoint that has one; None if none has."""
        self.failures = []
        for endpoint in self.endpoints:
            request = urllib.request.Request(
                f"{endpoint}/v3/cluster/{path}",
                data=json.dumps(value).encode(),
                headers={"Content-Type": "application/json"},
            )
            try:
                with self.opener.open(request, timeout=10) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                # It answered: another endpoint would say the same.
                raise Refused(f"{endpoint}: {error.read().decode('utf-8', 'replace')}") from error
            except (OSError, ValueError) as error:
                self.failures.append(f"{endpoint}: {error}")
        return None

    def members(self):
        """Members as the cluster's majority knows them; None when nobody answers."""
        answer = self.call("member/list", {"linearizable": True})
        return None if answer is None else answer.get("members", [])


def initial(members, state, token):
    """Environment of a first start."""
    peers = ",".join(f"{name}={peer}" for name, peer in sorted(members.items()))
    return (
        "# Written by gpufleet; read at the first start only.\n"
        f"ETCD_INITIAL_CLUSTER={peers}\n"
        f"ETCD_INITIAL_CLUSTER_STATE={state}\n"
        f"ETCD_INITIAL_CLUSTER_TOKEN={token}\n"
    )


def replace(cluster, params, there):
    """Remove this member's old entry, add a new one; returns name -> peer address of all."""
    own = params["members"][params["name"]]
    for member in there:
        is_own = member.get("name") == params["name"] or own in member.get("peerURLs", [])
        if is_own and cluster.call("member/remove", {"ID": member["ID"]}) is None:
            raise Refused("the cluster went away: " + "; ".join(cluster.failures))
    if cluster.call("member/add", {"peerURLs": [own]}) is None:
        raise Refused("the cluster went away: " + "; ".join(cluster.failures))
    # Those that were added and have not started yet have no name; the inventory has it.
    names = {peer: name for name, peer in params["members"].items()}
    found = {params["name"]: own}
    for member in cluster.members() or []:
        peer = member["peerURLs"][0]
        found[member.get("name") or names.get(peer, f"member-{member['ID']}")] = peer
    found[params["name"]] = own
    return found


def decide(params, cluster):
    """`keep`, `replace` or `bootstrap`, and the members that are there; raises Refused."""
    if os.path.isdir(os.path.join(params["data_dir"], "member")):
        return "keep", None
    there = cluster.members()
    if there:
        return "replace", there
    if params["bootstrap"]:
        return "bootstrap", None
    raise Refused(
        f"{params['name']} has no data, and no other member answers "
        f"({'; '.join(cluster.failures) or 'none is known'}). It is not started as a new cluster, "
        "which would lose what the others hold: bring them back, or, if there is nothing to lose, "
        "run with -e etcd_bootstrap=true"
    )


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "members": {"type": "dict", "required": True},
            "endpoints": {"type": "list", "elements": "str", "required": True},
            "data_dir": {"type": "path", "required": True},
            "environment_file": {"type": "path", "required": True},
            "token": {"type": "str", "required": True, "no_log": False},
            "bootstrap": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    cluster = Cluster(params["endpoints"])
    try:
        decision, there = decide(params, cluster)
        if decision == "keep" or module.check_mode:
            module.exit_json(changed=decision != "keep", decision=decision)
        if decision == "replace":
            text = initial(replace(cluster, params, there), "existing", params["token"])
        else:
            text = initial(params["members"], "new", params["token"])
        replace_file(params["environment_file"], text.encode(), 0o644, 0, 0)
    except (Refused, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, decision=decision)


if __name__ == "__main__":
    main()
