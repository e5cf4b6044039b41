"""Makes the place and becomes the agent in it. Run as a program of its own, by file name: standard library only, imports nothing of ours.

As root it makes the namespaces with root's power and then gives all of it up: the agent's user namespace owns none of the others, so
nothing in them can be changed from within. As a plain user, where the kernel allows it, one user namespace makes the others, and the
agent lives in a second one below it.

One JSON object on the command line: root, files ([[source, destination]..]), folders, user, uid, outside_uid, host, work, share, argv, script_fd.
One JSON line on standard output: {"pid"} or {"error", "stage"}.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import sys
from typing import Any, NoReturn

CLONE = {"mnt": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SIGKILL = 9
SCRIPT_FD = 3

libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    def __init__(self, stage: str, number: int) -> None:
        super().__init__(f"{stage}: {os.strerror(number)}")
        self.stage = stage


def check(stage: str, result: int) -> None:
    if result != 0:
        raise Failed(stage, ctypes.get_errno())


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = [text.encode() or None for text in (source, target, kind)]
    check(f"mount {kind or 'flags'} at {target}", libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None))


def aside(number: int) -> int:
    """A copy out of the way of the descriptors that the agent gets."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 100)


def write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="ascii") as sink:
            sink.write(text)
    except OSError as error:
        raise Failed(path, error.errno or 0) from error


def map_user(inside: int, outside_uid: int, outside_gid: int) -> None:
    """One user, one group, and no way to get at others."""
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{inside} {outside_uid} 1")
    write("/proc/self/gid_map", f"{inside} {outside_gid} 1")


def build(spec: dict[str, Any], owner: int) -> None:
    """A file system in memory that holds the interpreter, the agent and nothing else."""
    root = spec["root"]
    mount("", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=256m")
    for folder in (*spec["folders"], "/proc", "/etc", spec["work"]):
        os.makedirs(root + folder, mode=0o755, exist_ok=True)
    for source, destination in spec["files"]:
        os.makedirs(os.path.dirname(root + destination), mode=0o755, exist_ok=True)
        shutil.copyfile(source, root + destination)
        os.chmod(root + destination, 0o755)
    with open(root + "/etc/passwd", "w", encoding="ascii") as sink:
        sink.write(f"{spec['user']}:x:{spec['uid']}:{spec['uid']}::{spec['work']}:/nonexistent\n")
    mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", root + spec["work"], "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, f"mode=0700,size=16m,uid={owner},gid={owner}")


def move_in(spec: dict[str, Any]) -> None:
    """The old root is not covered but gone."""
    os.chdir(spec["root"])
    check("pivot_root", libc.syscall(ctypes.c_long(PIVOT_ROOT[os.uname().machine]), b".", b"."))
    check("umount of the old root", libc.umount2(b".", MNT_DETACH))
    os.chdir("/")
    mount("", "/", "", MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
    socket.sethostname(spec["host"])


def loopback_up() -> None:
    """Its own loopback, so that a call to 127.0.0.1 is answered by this namespace and not by the lack of a device."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(sock.fileno(), 0x8914, request)  # SIOCSIFFLAGS


def give_up_power(spec: dict[str, Any], privileged: bool) -> None:
    if privileged:
        os.setgroups([])
        os.setresgid(*[spec["outside_uid"]] * 3)
        os.setresuid(*[spec["outside_uid"]] * 3)
        check("dumpable", libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))  # or its own /proc files would still be root's
    uid, gid = os.geteuid(), os.getegid()
    check("unshare user", libc.unshare(CLONE["user"]))
    map_user(spec["uid"], uid, gid)
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # those that this kernel does not know are refused
    check("no new privileges", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check("death signal", libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))


def become(spec: dict[str, Any], null: int) -> NoReturn:
    for number in (0, 1):
        os.dup2(null, number)
    if spec["script_fd"] != SCRIPT_FD:
        os.dup2(spec["script_fd"], SCRIPT_FD)
        os.set_inheritable(spec["script_fd"], False)  # whatever else is open closes itself on exec
    os.chdir(spec["work"])
    os.execve(spec["argv"][0], spec["argv"], {})


def inside(spec: dict[str, Any], privileged: bool, told: int) -> NoReturn:
    try:
        null = aside(os.open("/dev/null", os.O_RDWR))
        build(spec, spec["outside_uid"] if privileged else 0)
        if "net" not in spec["share"]:
            loopback_up()
        move_in(spec)
        give_up_power(spec, privileged)
        become(spec, null)
    except (Failed, OSError) as error:
        with contextlib.suppress(OSError):
            os.write(told, json.dumps({"error": str(error), "stage": getattr(error, "stage", "inside")}).encode() + b"\n")
        os._exit(3)


def main() -> int:
    spec: dict[str, Any] = json.loads(sys.argv[1])
    privileged = os.geteuid() == 0
    uid, gid = os.geteuid(), os.getegid()
    told = aside(1)
    wanted = [name for name in CLONE if name not in spec["share"] and (name != "user" or not privileged)]
    try:
        check(f"unshare {', '.join(wanted)}", libc.unshare(sum(CLONE[name] for name in wanted)))
        if not privileged:
            map_user(0, uid, gid)
    except Failed as error:
        os.write(told, json.dumps({"error": str(error), "stage": error.stage}).encode() + b"\n")
        return 3
    child = os.fork()
    if child == 0:
        inside(spec, privileged, told)
    os.close(spec["script_fd"])
    os.write(told, json.dumps({"pid": child}).encode() + b"\n")
    os.close(told)
    os.close(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main())
