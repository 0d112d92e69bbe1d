"""What stands between this process, the zygote, and user code, which has the same user id in the same namespaces."""

import ctypes
import errno
import os
import resource
import shutil
import signal

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

MIB = 1024 * 1024
# A workspace with more entries than this is not wiped but thrown away, together with the runner.
_MAX_ENTRIES = 2000
_LIMITS = tuple(value for name, value in sorted(vars(resource).items()) if name.startswith('RLIMIT_'))
_IGNORED = tuple(
    number
    for number in signal.valid_signals()
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)
    and signal.getsignal(number) == signal.SIG_DFL
)


def _prctl(option, value):
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), 'prctl')


def close_zygote():
    """
    Closes /proc/<zygote>/mem, fd and environ, and ptrace, to processes of the same user; makes orphans of the runs
    children of this process, so that none is left uncounted; and turns a deaf ear to all signals that allow it.
    """
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in (*_IGNORED, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def close_inherited(kept):
    """Descriptors that the host itself was started with may have come this far, whatever their number."""
    for fd in map(int, os.listdir('/proc/self/fd')):
        if fd not in kept:
            try:
                os.close(fd)
            except OSError:
                # The one that listed them.
                pass


def open_child():
    """In the process of a run: everything as any Python process has it."""
    _prctl(_PR_SET_DUMPABLE, 1)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def address_space():
    """Bytes of address space that this process has."""
    with open('/proc/self/statm') as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def limit(memory_mib, cpu_ms):
    """
    The limits of a run. Its memory counts on top of what the interpreter has already; a soft limit below the hard one
    leaves room to report a MemoryError.
    """
    space = address_space() + memory_mib * MIB
    seconds = -(-cpu_ms // 1000)
    _lower(resource.RLIMIT_AS, space, space + 4 * MIB)
    _lower(resource.RLIMIT_CPU, seconds, seconds + 1)
    _lower(resource.RLIMIT_FSIZE, 10 * MIB, 10 * MIB)
    _lower(resource.RLIMIT_CORE, 0, 0)
    # POSIX message queues outlive processes and count to nobody.
    _lower(getattr(resource, 'RLIMIT_MSGQUEUE', 12), 0, 0)


def relax_memory():
    """The rest of the address space, for the last words of a process that has run out of it."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _lower(which, soft, hard):
    present = resource.getrlimit(which)[1]
    if present != resource.RLIM_INFINITY:
        soft, hard = min(soft, present), min(hard, present)
    resource.setrlimit(which, (soft, hard))


def state():
    """What a process of the same user can change about this one from outside. It must be the same after each run."""
    limits = tuple(resource.getrlimit(which) for which in _LIMITS)
    return limits, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)


def kill_all(pid, in_namespace):
    """
    Ends every process of the run and collects it. Returns (exit status of `pid`, CPU seconds of all, largest resident
    KiB of `pid`).
    """
    status, cpu, resident = None, 0.0, 0
    while True:
        _kill_remaining(in_namespace)
        try:
            ended, code, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return status, cpu, resident
        cpu += usage.ru_utime + usage.ru_stime
        if ended == pid:
            status, resident = code, usage.ru_maxrss


def _kill_remaining(in_namespace):
    if in_namespace:
        # All but this process and the first of the namespace, in one go.
        _kill(-1)
        return
    for pid in _children():
        _kill(pid)


def _children():
    with open('/proc/self/task/%d/children' % os.getpid()) as file:
        return [int(pid) for pid in file.read().split()]


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _entries(folder):
    space = os.statvfs(folder)
    return space.f_files - space.f_ffree


def folder_state(folder):
    """What a run can change about its folder beside what lies in it. It must be the same after each run."""
    # Listing updates it; set by a run, it would be a message to the next.
    os.utime(folder, (0, 0))
    status = os.stat(folder)
    try:
        attributes = tuple((name, os.getxattr(folder, name)) for name in sorted(os.listxattr(folder)))
    except OSError as error:
        # The filter of system calls has none set either.
        if error.errno != errno.ENOTSUP:
            raise
        attributes = ()
    return status.st_mode, status.st_uid, status.st_gid, attributes, tuple(os.listdir(folder))


def wipe(folder, is_whole_filesystem):
    """Empties a folder. False when it resists; the caller then ends, and the folder with it."""
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
        if found and is_whole_filesystem and _entries(folder) > _MAX_ENTRIES:
            return False
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
    except (OSError, RecursionError):
        return False
    return True
