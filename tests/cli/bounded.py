#!/usr/bin/python3
"""Run a command that must stay within bounds: CPU seconds, MiB resident, MiB in any file it writes.

usage: bounded.py SECONDS MIB FILE_MIB COMMAND...

Its status is the command's, or 90 for too much time, 91 for too much memory, 92 for too large a
file. With sanitizers (SAN is set) ten times the time and memory are granted.
"""
import os
import resource
import signal
import sys

seconds, mib, file_mib = (int(a) for a in sys.argv[1:4])
if os.environ.get("SAN"):
    seconds, mib = 10 * seconds, 10 * mib + 1024
pid = os.fork()
if pid == 0:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_mib << 20, file_mib << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(sys.argv[4], sys.argv[4:])
    except OSError as e:
        print(e, file=sys.stderr)
        os._exit(127)
_, status, usage = os.wait4(pid, 0)
used = usage.ru_utime + usage.ru_stime
why = None
if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
    why = (90, "took more than %d s" % seconds)
elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXFSZ:
    why = (92, "wrote more than %d MiB" % file_mib)
elif usage.ru_maxrss > mib << 10:
    why = (91, "needed %d MiB" % (usage.ru_maxrss >> 10))
if why is not None:
    print("bounded.py: %s: %s" % (" ".join(sys.argv[4:]), why[1]), file=sys.stderr)
    sys.exit(why[0])
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
