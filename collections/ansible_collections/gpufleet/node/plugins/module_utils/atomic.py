"""Files put in place by a rename, with owner and mode set before they can be seen."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import tempfile


def owner_ids(owner, group):
    """Numbers of a user and a group given by name or number; raises KeyError for unknown ones."""
    uid = int(owner) if str(owner).isdigit() else pwd.getpwnam(owner).pw_uid
    gid = int(group) if str(group).isdigit() else grp.getgrnam(group).gr_gid
    return uid, gid


def beside(path):
    """Prefix and folder of a new thing that is to take the place of `path`; removes old ones."""
    folder, name = os.path.split(path)
    prefix = f".gpufleet.{name}."
    for debris in os.listdir(folder):
        if debris.startswith(prefix) and "." not in debris[len(prefix) :]:
            found = os.path.join(folder, debris)
            is_folder = os.path.isdir(found) and not os.path.islink(found)
            (shutil.rmtree if is_folder else os.unlink)(found)
    return {"prefix": prefix, "dir": folder}


def replace_file(path, content, mode, uid, gid, check=None):
    """Write bytes to a new file beside `path` and rename it there.

    `check` is called with the new file's path before the rename; what it raises leaves `path` as it
    was. The file is never readable by more than its final mode allows. What a run that was killed
    left beside `path` is removed.
    """
    descriptor, temporary = tempfile.mkstemp(**beside(path))
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
