"""Files put in place by a rename, with owner and mode set before they can be seen."""

from __future__ import annotations

import grp
import os
import pwd
import tempfile


def owner_ids(owner, group):
    """Numbers of a user and a group given by name or number; raises KeyError for unknown ones."""
    uid = int(owner) if str(owner).isdigit() else pwd.getpwnam(owner).pw_uid
    gid = int(group) if str(group).isdigit() else grp.getgrnam(group).gr_gid
    return uid, gid


def replace_file(path, content, mode, uid, gid, check=None):
    """Write bytes to a new file beside `path` and rename it there.

    `check` is called with the new file's path before the rename; what it raises leaves `path` as it
    was. The file is never readable by more than its final mode allows.
    """
    folder = os.path.dirname(path)
    descriptor, temporary = tempfile.mkstemp(prefix=".gpufleet.", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchown(stream.fileno(), uid, gid)
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        if check is not None:
            check(temporary)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
