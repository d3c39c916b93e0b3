"""Mounts: which one holds a path, and whether its bytes come from a local disk, a network, memory or an overlay. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from diag_kit.records import NotUnderstood

_NETWORK = [
    "nfs",
    "nfs4",
    "cifs",
    "smb",
    "smbfs",
    "smb3",
    "lustre",
    "ceph",
    "glusterfs",
    "beegfs",
    "gpfs",
    "mmfs",
    "panfs",
    "pvfs2",
    "orangefs",
    "wekafs",
    "vastnfs",
    "daos",
    "dfuse",
    "afs",
    "afp",
    "ncpfs",
    "coda",
    "9p",
    "virtiofs",
    "vboxsf",
    "davfs",
    "moosefs",
    "quobyte",
    "objectivefs",
    "juicefs",
]
_NETWORK_FUSE = [
    "sshfs",
    "s3fs",
    "s3ql",
    "gcsfuse",
    "goofys",
    "geesefs",
    "mountpoint",
    "mount-s3",
    "rclone",
    "juicefs",
    "alluxio",
    "gluster",
    "ceph",
    "mfs",
    "moosefs",
    "lizardfs",
    "bb",
    "blob",
    "blobfuse",
    "blobfuse2",
    "hdfs",
    "dfs",
    "jfs",
    "seaweedfs",
    "davfs",
    "objectivefs",
    "lustre",
    "beegfs",
    "weka",
    "cunofs",
    "oss",
    "ossfs",
    "cosfs",
    "tigrisfs",
    "azure",
    "xrootd",
    "cvmfs",
]
_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_PSEUDO = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devpts",
    "mqueue",
    "securityfs",
    "debugfs",
    "tracefs",
    "bpf",
    "pstore",
    "configfs",
    "autofs",
    "binfmt_misc",
    "efivarfs",
    "fusectl",
    "nsfs",
    "rpc_pipefs",
    "selinuxfs",
    "fuse.lxcfs",
    "fuse.portal",
    "fuse.gvfsd-fuse",
]
_NETWORK_DEVICE = re.compile(r"^/dev/(rbd|nbd|drbd)\d")
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/PID/mounts."""

    path: str
    source: str
    fstype: str

    @property
    def kind(self) -> str:
        """network, memory, overlay, fuse (of an unknown kind) or local. A cloud volume looks like a local disk."""
        if self.fstype in _NETWORK or self.fstype.partition(".")[2] in _NETWORK_FUSE or _NETWORK_DEVICE.match(self.source):
            return "network"
        if self.fstype.startswith("fuse"):
            program = re.split(r"[#:@]", self.source, maxsplit=1)[0].rpartition("/")[2]
            return "network" if program in _NETWORK_FUSE or re.match(r"^\w+://|^\S+@\S+:", self.source) else "fuse"
        if self.fstype in _MEMORY:
            return "memory"
        return "overlay" if self.fstype in ("overlay", "overlayfs", "aufs") else "local"


def read_mounts(text: str, odd: list[NotUnderstood]) -> list[Mount]:
    """/proc/PID/mounts without the kernel's own file systems; spaces in paths are printed as octal."""
    mounts: list[Mount] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(" ")
        if len(words) < 4:
            if line.strip():
                odd.append(NotUnderstood(f"mounts line {number}", line[:200], "fewer than four fields"))
        elif words[2] not in _PSEUDO:
            source, path = (_ESCAPE.sub(lambda found: chr(int(found[1], 8)), word) for word in words[:2])
            mounts.append(Mount(path, source, words[2]))
    return mounts


def holder(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that holds an absolute path: the deepest, and of several there the last, which hides the earlier."""
    if not path.startswith("/"):
        return None
    holders = [mount for mount in mounts if PurePosixPath(path).is_relative_to(mount.path)]
    deepest = max((len(PurePosixPath(mount.path).parts) for mount in holders), default=0)
    return next((mount for mount in reversed(holders) if len(PurePosixPath(mount.path).parts) == deepest), None)
