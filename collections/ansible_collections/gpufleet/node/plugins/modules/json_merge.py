"""Module `gpufleet.node.json_merge`: keys of a JSON file that others write, too."""

from __future__ import annotations

import json
import os
import stat

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.node.plugins.module_utils.atomic import replace_file

DOCUMENTATION = r"""
module: json_merge
short_description: Sets keys of a JSON file and keeps all others
description:
  - Objects are merged key by key; any other value replaces what is there. Keys in C(absent), as
    dotted paths, are removed.
  - A file that is not JSON, or not an object, is left alone and is an error with its place.
options:
  path: {description: The file., type: path, required: true}
  values: {description: What is to be in it., type: dict, required: true}
  absent: {description: Dotted paths of keys to remove., type: list, elements: str, default: []}
  validate: {description: Command with C(%s) for the new file., type: str}
"""


class Refused(Exception):
    """The new file did not pass its check."""


def merged(there, wanted):
    """`wanted` laid over `there`, object by object."""
    result = dict(there)
    for key, value in wanted.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def without(there, dotted):
    """`there` less the key at a dotted path."""
    key, _, rest = dotted.partition(".")
    if key not in there:
        return there
    if not rest:
        return {name: value for name, value in there.items() if name != key}
    if not isinstance(there[key], dict):
        return there
    return {**there, key: without(there[key], rest)}


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "values": {"type": "dict", "required": True},
            "absent": {"type": "list", "elements": "str", "default": []},
            "validate": {"type": "str"},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    try:
        with open(path, encoding="utf-8") as stream:
            old, found = stream.read(), os.fstat(stream.fileno())
    except FileNotFoundError:
        old, found = "", None
    except (OSError, UnicodeDecodeError) as error:
        module.fail_json(msg=f"{path}: {error}; it was left alone, mend or remove it")
    try:
        there = json.loads(old) if old.strip() else {}
    except json.JSONDecodeError as error:
        module.fail_json(
            msg=f"{path}:{error.lineno}:{error.colno}: not JSON ({error.msg}); "
            "it was left alone, mend or remove it"
        )
    if not isinstance(there, dict):
        module.fail_json(msg=f"{path}: an object is expected; it was left alone, mend or remove it")
    new = merged(there, module.params["values"])
    for dotted in module.params["absent"]:
        new = without(new, dotted)
    if new == there:
        module.exit_json(changed=False, diff=[])
    text = json.dumps(new, indent=2, sort_keys=True) + "\n"

    def check(candidate):
        command = module.params["validate"]
        if command:
            code, out, err = module.run_command(command.replace("%s", candidate))
            if code != 0:
                raise Refused(f"{path}: `{command}` refused it: {(err or out).strip()}")

    # A file that its owner closed to others, as it holds a password, stays closed.
    mode, uid, gid = 0o644, 0, 0
    if found is not None:
        mode, uid, gid = stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    if not module.check_mode:
        try:
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
            replace_file(path, text.encode(), mode, uid, gid, check=check)
        except (Refused, OSError) as error:
            module.fail_json(msg=str(error))
    module.exit_json(
        changed=True,
        diff=[{"before_header": path, "after_header": path, "before": old, "after": text}],
    )


if __name__ == "__main__":
    main()
