"""A script between us and a command: `python -I -S -E launcher.py CONTROL STATUS PARENT FOLDER PROGRAM [ARGUMENT...]`.

- CONTROL is the read end of a pipe whose other end only PARENT has. Its end, or PARENT's, however it came (kill -9 too),
  kills every descendant. A byte "T" on it sends them SIGTERM, "K" kills them.
- STATUS is the write end of a pipe for one line of JSON: `{"exit": 0, "signal": 0, "errno": 0, "folder": 0, "leftovers": 0,
  "survivors": 0}`, written when nothing that the command started is alive any more.
- On Linux this process is the subreaper: an orphan becomes its child, whatever session it made for itself, so "no child
  left" means "no descendant left". Elsewhere only the command's process group can be ended.
- On Linux this process begins as two: the one above is a guard. When the launcher is killed, by a test that kills what it
  finds, say, the kernel kills the command with it, and what that had started becomes the guard's, which kills it.

Standard library only, and few modules: `signal` alone, by way of `enum`, would be half of the time that this takes to start.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # what `signal` is made of, see above
import os
import select
import sys
import time

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LEFTOVER_SECONDS = 0.25  # between TERM and KILL for what outlives the command: it is not waited for, only let go
KILL_SECONDS = 2.0  # a process that KILL does not end by then (a hung disk, another user's) is reported, not waited for
CANNOT_START = 127


class Command:
    """The command and everything that it has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.wait_status: int | None = None
        self.childless = False
        self.told: set[int] = set()
        self.signalled = False
        self.leftovers = 0

    def reap(self) -> None:
        """Take the exit status of every child that has one."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    self.wait_status = status
        except ChildProcessError:
            self.childless = True

    @property
    def gone(self) -> bool:
        """Whether nothing is left of what we can see."""
        return self.childless if LINUX else self.wait_status is not None and not group_exists(self.pid)

    def descendants(self) -> set[int]:
        return descendants_of(os.getpid()) if LINUX else set()

    def send(self, number: int, only: set[int] | None = None) -> None:
        """Signal every descendant, or only those."""
        for pid in self.descendants() if only is None else only:
            send(pid, number)
        if not LINUX:
            send(-self.pid, number)

    def terminate(self) -> None:
        self.signalled = True
        self.tell(self.descendants())

    def tell_orphans(self) -> None:
        """Send TERM to what was being forked while `terminate` looked: its parent is gone, so it has become our child.

        Not to what a living process starts after it got TERM: that may be its way of tidying up.
        """
        if LINUX:
            self.tell(set(children_by_parent().get(os.getpid(), ())) - self.told)

    def tell(self, pids: set[int]) -> None:
        """Send TERM, but to no sandbox with something in it: it would pass nothing on, and its end kills what is inside."""
        self.told |= pids
        self.send(signal.SIGTERM, {pid for pid in pids if not is_sandbox(pid)} or pids)
        self.send(signal.SIGCONT, pids)  # a stopped process acts on TERM only when it goes on

    def let_go(self) -> None:
        """The command has ended by itself: end what it left behind."""
        self.leftovers = sum(not is_sandbox(pid) for pid in self.descendants())
        self.terminate()

    def kill(self) -> int:
        """Kill every descendant, also one that is being forked at this moment; how many could not be killed."""
        until = time.monotonic() + KILL_SECONDS
        while True:
            stopped: set[int] = set()
            while new := self.descendants() - stopped:  # what is stopped forks no more, so this comes to an end
                for pid in new:
                    send(pid, signal.SIGSTOP)
                stopped |= new
            self.send(signal.SIGKILL)
            self.reap()
            if self.gone:
                return 0
            if time.monotonic() > until:
                return len(self.descendants())
            time.sleep(0.001)


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def is_sandbox(pid: int) -> bool:
    """Whether a process is bubblewrap's own inside, which ends a moment after the command that it kept."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read() == b"bwrap\n"
    except OSError:  # it is gone already, or there is no /proc
        return LINUX


def group_exists(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):  # the second for a group of zombies, on macOS
        return False
    return True


def children_by_parent() -> dict[int, list[int]]:
    """The living processes. All of /proc is read: many kernels are built without `children` files."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := parent_of(name)):
            children.setdefault(parent, []).append(int(name))
    return children


def descendants_of(root: int) -> set[int]:
    children = children_by_parent()
    found: set[int] = set()
    pending = [root]
    while pending:
        born = children.get(pending.pop(), ())
        found.update(born)
        pending.extend(born)
    return found


def parent_of(pid: str) -> int:
    """The parent of a living process; 0 when it is gone or a zombie, which has no children."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return 0
    try:
        fields = os.read(descriptor, 1024).rpartition(b")")[2].split()  # the name before may hold anything
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return 0 if not fields or fields[0] in b"ZX" else int(fields[1])


def prctl(option: int, value: int) -> None:
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def stand_guard(descriptors: tuple[int, ...]) -> None:
    """Split in two: the caller goes on as the launcher, and this process sees that nothing outlives that."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    ready, done = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        os.close(done)
        os.read(ready, 1)  # until the guard holds none of the command's pipes: its end would not be seen till then
        os.close(ready)
        return
    os.close(ready)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2, *descriptors):  # their ends must be seen when the launcher has closed them
        os.dup2(nothing, descriptor)
    os.close(done)
    os.chdir("/")
    while os.WIFSTOPPED(os.waitpid(launcher, os.WUNTRACED)[1]):  # by its command: stopped, it would end nothing
        send(launcher, signal.SIGCONT)
    left = Command(launcher)
    left.reap()
    if not left.childless:
        left.kill()
    os._exit(0)


def start(folder: str, argv: list[str]) -> tuple[int, int, bool]:
    """Start the command: its pid, and the errno of a start that did not come about, and whether the folder was to blame."""
    me = os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(folder, argv, me, writing)
    os.close(writing)
    trouble = os.read(reading, 32)  # empty once `exec` has closed the other end
    os.close(reading)
    return pid, int(trouble[1:] or 0), trouble[:1] == b"F"


def become(folder: str, argv: list[str], launcher: int, trouble: int) -> None:
    """In the child: turn into the command, or say why not."""
    stage = b"F"
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:
            os._exit(CANNOT_START)
        restore_signals()
        take_terminal()
        os.chdir(folder)
        stage = b"P"
        os.execvp(argv[0], argv)  # noqa: S606 - no shell, on purpose
    except OSError as error:
        os.write(trouble, stage + b"%d" % (error.errno or 0))
    finally:
        os._exit(CANNOT_START)


def take_terminal() -> None:
    """Where the input is a terminal, it is this session's: Ctrl-C and job control work there."""
    if os.isatty(0):
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def restore_signals() -> None:
    """What Python, we or who started us ignore or block is inherited through `exec`; a command expects the defaults."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # `nohup` and a shell's `&` ignore some too
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def watch(command: Command, control: int, parent: int) -> int:
    """Until nothing of the command is left, or its owner is gone; how many processes could not be killed."""
    woken = wake_on_children()
    poll = select.poll()
    for descriptor in (control, woken, *watch_parent(parent)):
        poll.register(descriptor, select.POLLIN)
    until: float | None = None
    while True:
        command.reap()
        if command.gone:
            return 0
        if command.wait_status is not None and not command.signalled:
            command.let_go()
            until = time.monotonic() + LEFTOVER_SECONDS
        elif command.signalled:
            command.tell_orphans()
        if until is not None and time.monotonic() >= until:
            return command.kill()
        ready = [each for each, _ in poll.poll(None if until is None else max(1, (until - time.monotonic()) * 1000))]
        if woken in ready:
            os.read(woken, 512)
            ready.remove(woken)
        if ready:
            asked = os.read(control, 16) if control in ready else b""
            if b"K" in asked or not asked:
                return command.kill()
            command.terminate()


def wake_on_children() -> int:
    """A descriptor that becomes readable when a child has ended."""
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken


def watch_parent(parent: int) -> list[int]:
    """A descriptor that becomes readable when the parent is gone.

    The control pipe says so too, unless a process that the parent forked without `exec` still holds its other end.
    """
    if not hasattr(os, "pidfd_open"):
        return []
    try:
        return [os.pidfd_open(parent)]
    except OSError:  # gone already, which the pipe says, or a kernel or sandbox without it
        return []


def main() -> None:
    control, status, parent = (int(each) for each in sys.argv[1:4])
    folder, argv = sys.argv[4], sys.argv[5:]
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)
    for name in ("SIGHUP", "SIGINT", "SIGTERM"):  # a stop comes through the pipe; a stray signal must not orphan the tree
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if LINUX:
        stand_guard((control, status))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid, errno, folder_is_bad = start(folder, argv)
    os.chdir("/")  # do not hold anybody's folder
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # else the command's own pipes would stay open until we end
        os.dup2(nothing, descriptor)
    command = Command(pid)
    try:
        survivors = watch(command, control, parent)
    except BaseException:
        command.kill()
        raise
    ended = command.wait_status or 0
    os.write(
        status,
        b'{"exit": %d, "signal": %d, "errno": %d, "folder": %d, "leftovers": %d, "survivors": %d}\n'
        % (ended >> 8, ended & 0x7F, errno, folder_is_bad, command.leftovers, survivors),
    )


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # the owner is gone; so is everything else
        pass
    finally:
        os._exit(0)
