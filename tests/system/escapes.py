"""Ways out of a sandbox, as data: shell commands by name. One that got out prints ESCAPED or leaves a trace outside. None does
harm beyond the places made for it, should a wall be missing.

`$OUT` is a directory outside, `$HOME` a home with secrets, `$PORT` and `$UDP` ports on which somebody listens, `$SOCK`
and `$ABSTRACT` sockets, `$VICTIM` a process of the same user, `$LIBC` the C library for calls that no program makes.
"""

from __future__ import annotations


def py(code: str) -> str:
    """A program that says ESCAPED when it comes to its end."""
    return f"""python3 -IS - <<'EOF'
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
out, env = os.environ["OUT"], os.environ
{code}
print("ESCAPED")
EOF"""


WRITES = {
    "by path": 'echo x > "$OUT/new"',
    "over a file": 'echo x > "$OUT/canary"',
    "appending": 'echo x >> "$OUT/canary"',
    "truncating": py('os.truncate(out + "/canary", 0)'),
    "by a way up": "echo x > ./../../../../../../..$OUT/new",
    "link made inside": 'ln -s "$OUT" way && echo x > way/new',
    "link to a file": 'ln -s "$OUT/canary" file && echo x > file',
    "link over a file inside": 'ln -sf "$OUT/canary" inside && echo x > inside',
    "hard link": 'ln "$OUT/canary" hard && echo x > hard',
    "moving out": 'echo x > mine && mv mine "$OUT/new"',
    "renaming out": py('open("mine", "w").close(); os.rename("mine", out + "/new")'),
    "moving in": 'mv "$OUT/canary" taken',
    "exchanging": py(
        'open("mine", "w").close(); call(316 if os.uname().machine == "x86_64" else 276, -100, b"mine", -100,'
        ' (out + "/canary").encode(), 2)'
    ),
    "removing": 'rm -f "$OUT/canary"',
    "a directory": 'mkdir "$OUT/new"',
    "a fifo": 'mkfifo "$OUT/new"',
    "a link outside": 'ln -s x "$OUT/new"',
    "a socket outside": py('socket.socket(socket.AF_UNIX).bind(out + "/new")'),
    "through the root of a process": 'echo x > "/proc/self/root$OUT/new"',
    "through the root of init": 'echo x > "/proc/1/root$OUT/new"',
    "through the directory of another process": "echo x > /proc/$VICTIM/cwd/new",
    "through a descriptor of another process": 'for fd in /proc/$VICTIM/fd/*; do echo x > "$fd" && echo ESCAPED; done',
    "from a script": 'printf "echo x > $OUT/new" > s.sh && sh s.sh',
    "from a process left behind": 'setsid sh -c "sleep 0.1; echo x > $OUT/new" & sleep 0.4',
    "after changing the directory": 'cd "$OUT" && echo x > new',
    "into the home": 'echo x > "$HOME/new"',
    "into a start file": 'echo x >> "$HOME/.bashrc"',
    "memory of another process": "echo x > /proc/$VICTIM/mem && echo ESCAPED",
    "extended attribute": py('os.setxattr(out + "/canary", "user.x", b"x")'),
}

READS = {
    "a key": 'grep -q CANARY "$HOME/.ssh/id_rsa" && echo ESCAPED',
    "a key by a link": 'ln -s "$HOME/.ssh" keys && grep -q CANARY keys/id_rsa && echo ESCAPED',
    "a key by a hard link": 'ln "$HOME/.ssh/id_rsa" key && grep -q CANARY key && echo ESCAPED',
    "a key through /proc": 'grep -q CANARY "/proc/self/root$HOME/.ssh/id_rsa" && echo ESCAPED',
    "credentials of a cloud": 'grep -q CANARY "$HOME/.aws/credentials" && echo ESCAPED',
    "a single file": 'grep -q CANARY "$HOME/.netrc" && echo ESCAPED',
    "the environment of another process": "grep -q CANARY /proc/$VICTIM/environ && echo ESCAPED",
    "the memory of another process": "head -c 1 /proc/$VICTIM/mem && echo ESCAPED",
    "Bullpen's own data": 'grep -q CANARY "$OWN/bullpen.json" && echo ESCAPED',
    "by a handle": py("""
handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128)); mount = ctypes.c_int()
call(303 if os.uname().machine == "x86_64" else 264, -100, (env["HOME"] + "/.ssh/id_rsa").encode(), handle, ctypes.byref(mount), 0)"""),
}

WAYS_OUT = {
    "TCP": py('socket.create_connection(("127.0.0.1", int(env["PORT"])), 2)'),
    "TCP by bash": "echo x > /dev/tcp/127.0.0.1/$PORT && echo ESCAPED",
    "TCP with a NUL in the name": py(
        'import http.client; http.client.HTTPConnection("127.0.0.1\\0.example", int(env["PORT"])).request("GET", "/")'
    ),
    "UDP": py(
        'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(env["UDP"])))'
        "; sys.exit()"
    ),
    "raw": py("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"),
    "packets": py("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"),
    "a machine's host": py("socket.socket(40, socket.SOCK_STREAM)"),
    "a unix socket": py('socket.socket(socket.AF_UNIX).connect(env["SOCK"])'),
    "an abstract socket": py('socket.socket(socket.AF_UNIX).connect("\\0" + env["ABSTRACT"])'),
    "a ring": py("call(425, 4, ctypes.create_string_buffer(120))"),
}

POWERS = {
    "a signal": "kill -TERM $VICTIM && echo ESCAPED",
    "a signal by handle": py(
        "import signal; signal.pidfd_send_signal(os.pidfd_open(int(env['VICTIM'])), 15)"
    ),
    "tracing": py("""
if libc.ptrace(16, int(env["VICTIM"]), 0, 0) < 0: raise OSError("refused")"""),
    "writing into another process": py("""
vector = ctypes.create_string_buffer(16)
call(311 if os.uname().machine == "x86_64" else 271, int(env["VICTIM"]), vector, 1, vector, 1, 0)"""),
    "a descriptor of another process": py("call(438, os.pidfd_open(int(env['VICTIM'])), 0, 0)"),
    "limits of another process": py(
        "import resource; resource.prlimit(int(env['VICTIM']), resource.RLIMIT_NOFILE, (3, 3))"
    ),
    "priority of another process": "renice 19 -p $VICTIM >/dev/null && echo ESCAPED",
    "mounting": 'mount -t tmpfs none "$OUT" && echo ESCAPED',
    "mounting over itself": "mount --bind / . && echo ESCAPED",
    "the new way to mount": py("call(428, -100, b'/', 1)"),
    "another root": "mkdir -p r && chroot r true && echo ESCAPED",
    "a user namespace": "unshare -Ur true && echo ESCAPED",
    "a namespace by clone": py(
        "call(56 if os.uname().machine == 'x86_64' else 220, 0x10000000 | 17, 0, 0, 0, 0)"
    ),
    "a namespace by the newer clone": py("""
call(435, ctypes.create_string_buffer(struct.pack("=QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0)), 64)"""),
    "a namespace of another process": py(
        "call(308 if os.uname().machine == 'x86_64' else 268, os.open('/proc/1/ns/mnt', 0), 0)"
    ),
    "a device": "mknod dev b 7 0 && echo ESCAPED",
    "rights of root": "setpriv --reuid 12345 true && echo ESCAPED",
    "a program with more rights": "cp /bin/sh sh && chmod u+s sh && su -c true nobody && echo ESCAPED",
    "code from memory": py("""
fd = os.memfd_create("code"); os.write(fd, b"#!/bin/sh\\necho x > " + out.encode() + b"/new\\n")
os.set_inheritable(fd, True)
if os.fork() == 0: os.execv("/proc/self/fd/%d" % fd, ["code"])
os.wait(); sys.exit()"""),
    "the clock": py("import time; time.clock_settime(time.CLOCK_REALTIME, time.time())"),
    "the name of the machine": py("socket.sethostname(socket.gethostname())"),
    "a setting of the kernel": (
        "cat /proc/sys/kernel/printk_ratelimit > now; cat now > /proc/sys/kernel/printk_ratelimit && echo ESCAPED"
    ),
    "a module": py("""
libc.syscall(313 if os.uname().machine == "x86_64" else 273, -1, b"", 0)
if ctypes.get_errno() == 1: raise OSError("refused")"""),
    "a program in the kernel": py(
        "call(321 if os.uname().machine == 'x86_64' else 280, 0, ctypes.create_string_buffer(72), 72)"
    ),
    "another's keys": py("call(250 if os.uname().machine == 'x86_64' else 219, 0, -4, 1)"),
    "watching the processor": py(
        "call(298 if os.uname().machine == 'x86_64' else 241, ctypes.create_string_buffer(128), 0, -1, -1, 0)"
    ),
}

ESCAPES = WRITES | READS | WAYS_OUT | POWERS

PROTECTED = {
    "a hook": "echo x > .git/hooks/pre-commit && echo ESCAPED",
    "the config of git": "echo x >> .git/config && echo ESCAPED",
    "the config of git by git": "git config core.fsmonitor evil && echo ESCAPED",
    "attributes of git": "mkdir -p .git/info && echo x > .git/info/attributes && echo ESCAPED",
    "another git directory in its place": "mv .git old && mkdir -p .git/hooks && echo ESCAPED",
    "our config that is not there": "echo x > bullpen.json && echo ESCAPED",
    "the other's config": "echo x > crush.json && echo ESCAPED",
    "a directory for it": "mkdir .bullpen && echo ESCAPED",
    "a file in a directory for it": "echo x > .bullpen/x && echo ESCAPED",
    "tasks of an editor": "echo x > .vscode/tasks.json && echo ESCAPED",
    "other tasks in their place": "mv .vscode old && mkdir .vscode && echo ESCAPED",
    "a workflow": "echo x > .github/workflows/w.yml && echo ESCAPED",
    "a placeholder taken away": "rmdir bullpen.json && echo ESCAPED",
    "a placeholder renamed": "mv bullpen.json elsewhere && echo ESCAPED",
}
"""What only bubblewrap keeps: places within the workspace."""
