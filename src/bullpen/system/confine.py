"""Walls around a command, put up by the process that is about to become it: Landlock, a seccomp filter, no capabilities.

Part of the launcher, hence nothing but the standard library. What is allowed is decided in `sandbox.py`; here it is
only made so, and whatever cannot be made so raises, because then the command must not run. All of it is inherited
by whatever the command starts, and none of it can be taken back.

Landlock knows paths, but neither sockets that are files nor anything besides TCP; the seccomp filter knows nothing
but numbers. Together: files by path, network by address family, and no way to another process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
import sys
from collections.abc import Iterable
from typing import NamedTuple

NEEDED_ABI = 6
"""Linux 6.12: before it, Landlock lets signals through to every process of the user."""

FILTER_FD = 197
"""Where bubblewrap finds the filter."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_NO_NEW_PRIVS, _CAPBSET_DROP, _CAP_AMBIENT, _SET_SECCOMP = 38, 24, 47, 22

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ALL_FS = (1 << 16) - 1
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _ALL_FS & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
_DEVICE = _READ | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_ALL_TCP = 0b11
_ALL_SCOPES = 0b11


class Confinement(NamedTuple):
    """`by` is `landlock` or `bubblewrap`; of the second only the filter is made here, the rest is its command line."""

    by: str
    network: bool
    readable: list[str]
    writable: list[str]


def enter(walls: Confinement) -> None:
    """Put the walls up around this process. Raises OSError when one of them cannot stand."""
    if walls.by == "bubblewrap":
        # A network of its own keeps others out better than a filter, and leaves the loopback to tests.
        fd = os.memfd_create("filter", 0)
        os.write(fd, filter_program(_INTERNET, in_own_world=True))
        os.lseek(fd, 0, os.SEEK_SET)
        os.dup2(fd, FILTER_FD, inheritable=True)
        return
    _check(_libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_capabilities()
    _landlock(walls)
    _seccomp(filter_program(_INTERNET if walls.network else (), in_own_world=False))


def landlock_abi() -> int:
    """The version of Landlock in this kernel; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    version: int = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(version, 0)


def knows_machine() -> bool:
    """Whether there is a filter for this kind of machine."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the sandbox cannot be set up: {os.strerror(number)}")
    return result


# Capabilities


def _drop_capabilities() -> None:
    """Of root only the name stays; nobody else has any."""
    libc = _libc()
    libc.prctl(_CAP_AMBIENT, 4, 0, 0, 0)
    for capability in range(64):
        libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
    _check(libc.capset(header, ctypes.create_string_buffer(24)))


# Landlock


def _landlock(walls: Confinement) -> None:
    attributes = struct.pack("=QQQ", _ALL_FS, 0 if walls.network else _ALL_TCP, _ALL_SCOPES)
    libc = _libc()
    ruleset = _check(
        libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    )
    # Names may be seen anywhere; what stands behind them only where it was allowed.
    _allow(libc, ruleset, ["/"], _READ_DIR)
    _allow(libc, ruleset, walls.readable, _READ)
    _allow(libc, ruleset, walls.writable, _READ | _WRITE)
    _allow(libc, ruleset, DEVICES, _DEVICE)
    _check(libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    os.close(ruleset)


DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
)


def _allow(libc: ctypes.CDLL, ruleset: int, paths: Iterable[str], access: int) -> None:
    """What is not there needs no permission."""
    for path in paths:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        is_directory = stat.S_ISDIR(os.fstat(fd).st_mode)
        rule = struct.pack("=Qi", access if is_directory else access & _FOR_FILES, fd)
        _check(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, ctypes.c_uint32(0)))
        os.close(fd)


# Seccomp: a classic BPF program over the number of a system call and its arguments.


class _Machine(NamedTuple):
    audit: int
    numbers: dict[str, int]


def _numbered(text: str) -> dict[str, int]:
    words = text.split()
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}


_NEW = """
    io_uring_setup 425 io_uring_enter 426 io_uring_register 427 open_tree 428 move_mount 429 fsopen 430 fsconfig 431
    fsmount 432 fspick 433 clone3 435 pidfd_getfd 438 process_madvise 440 mount_setattr 442 quotactl_fd 443
    setxattrat 463 removexattrat 466 open_tree_attr 467
"""
"""Calls that have the same number on all machines."""

_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        _numbered(
            _NEW
            + """
            socket 41 clone 56 ptrace 101 syslog 103 setpriority 141 sched_setparam 142 sched_setscheduler 144
            pivot_root 155 chroot 161 acct 163 mount 165 umount2 166 swapon 167 swapoff 168 reboot 169 init_module 175
            delete_module 176 quotactl 179 setxattr 188 lsetxattr 189 fsetxattr 190 removexattr 197 lremovexattr 198
            fremovexattr 199 sched_setaffinity 203 kexec_load 246 add_key 248 request_key 249 keyctl 250 ioprio_set 251
            migrate_pages 256 unshare 272 move_pages 279 perf_event_open 298 prlimit64 302 name_to_handle_at 303
            open_by_handle_at 304 setns 308 process_vm_readv 310 process_vm_writev 311 finit_module 313
            sched_setattr 314 kexec_file_load 320 bpf 321 userfaultfd 323
            """
        ),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        _numbered(
            _NEW
            + """
            setxattr 5 lsetxattr 6 fsetxattr 7 removexattr 14 lremovexattr 15 fremovexattr 16 ioprio_set 30 umount2 39
            mount 40 pivot_root 41 chroot 51 quotactl 60 acct 89 unshare 97 kexec_load 104 init_module 105
            delete_module 106 syslog 116 ptrace 117 sched_setparam 118 sched_setscheduler 119 sched_setaffinity 122
            setpriority 140 reboot 142 socket 198 add_key 217 request_key 218 keyctl 219 clone 220 swapon 224
            swapoff 225 migrate_pages 238 move_pages 239 perf_event_open 241 prlimit64 261 name_to_handle_at 264
            open_by_handle_at 265 setns 268 process_vm_readv 270 process_vm_writev 271 finit_module 273
            sched_setattr 274 bpf 280 userfaultfd 282 kexec_file_load 294
            """
        ),
    ),
}

_UNSUPPORTED = ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr")
_UNSUPPORTED_AT = ("setxattrat", "removexattrat")
_OTHER_PROCESSES = {
    # The argument that names another process; 0 is the caller itself.
    "prlimit64": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
_LOOKED_INTO = frozenset({"socket", "clone", "clone3", *_UNSUPPORTED, *_UNSUPPORTED_AT, *_OTHER_PROCESSES})

_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_INTERNET = (_AF_INET, _AF_INET6, _AF_NETLINK)
"""Netlink is how a resolver learns of the machine's addresses. A unix socket is a way to somebody else's process:
to the server, an agent with keys, a container daemon."""

_NEW_USER_NAMESPACE = 0x10000000
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _AUDIT_AT, _ARGUMENTS_AT = 0, 4, 16


def filter_program(families: Iterable[int], *, in_own_world: bool) -> bytes:
    """The filter as the kernel and bubblewrap read it. In a world of its own a command sees no process of others."""
    machine = _MACHINES[platform.machine()]
    numbers = machine.numbers
    program = [
        _op(_LOAD, _AUDIT_AT),
        _op(_EQUAL, machine.audit, 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _NUMBER_AT),
        _op(_AT_LEAST, _X32, 0, 1),
        _op(_RETURN, _ERROR | errno.ENOSYS),
    ]
    for name, number in numbers.items():
        if name not in _LOOKED_INTO:
            program += _refuse(number, errno.EPERM)
    for name in _UNSUPPORTED + _UNSUPPORTED_AT:
        program += _refuse(numbers[name], errno.EOPNOTSUPP)
    # Its flags lie behind a pointer that a filter cannot follow; callers fall back to the older form.
    program += _refuse(numbers["clone3"], errno.ENOSYS)
    program += _refuse_if(numbers["clone"], 0, _HAS_BIT, [_NEW_USER_NAMESPACE])
    program += _refuse_unless(numbers["socket"], 0, families)
    if not in_own_world:
        for name, argument in _OTHER_PROCESSES.items():
            program += _refuse_unless(numbers[name], argument, [0])
    program.append(_op(_RETURN, _ALLOW))
    return b"".join(program)


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int, error: int) -> list[bytes]:
    return [_op(_EQUAL, number, 0, 1), _op(_RETURN, _ERROR | error)]


def _refuse_if(number: int, argument: int, test: int, values: Iterable[int]) -> list[bytes]:
    tests = [
        step for value in values for step in (_op(test, value, 0, 1), _op(_RETURN, _ERROR | errno.EPERM))
    ]
    return _looking_at(number, argument, tests)


def _refuse_unless(number: int, argument: int, values: Iterable[int]) -> list[bytes]:
    tests = [step for value in values for step in (_op(_EQUAL, value, 0, 1), _op(_RETURN, _ALLOW))]
    return _looking_at(number, argument, [*tests, _op(_RETURN, _ERROR | errno.EPERM)])


def _looking_at(number: int, argument: int, tests: list[bytes]) -> list[bytes]:
    """Tests of the low half of an argument, after which the number is looked at again."""
    body = [_op(_LOAD, _ARGUMENTS_AT + 8 * argument), *tests, _op(_LOAD, _NUMBER_AT)]
    return [_op(_EQUAL, number, 0, len(body)), *body]


def _seccomp(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _check(_libc().prctl(_SET_SECCOMP, 2, ctypes.c_char_p(head), 0, 0))
