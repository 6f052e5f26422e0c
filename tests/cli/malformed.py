"""malformed.py INDEX FORMAT COMMAND...: run COMMAND on every file of FORMAT of a malformed suite and
print what is not as it should be, one line each, then the number of files. In COMMAND, FILE stands
for the file and OUT for an output that is to be absent after a refusal. With `-` first, the file is
piped in.

A refusal is exit status 1 with one line on standard error that names program, file and offset.
HK_SLOW is set under a sanitizer, where times and sizes mean nothing."""
import json
import os
import resource
import subprocess
import sys

SECONDS, MEMORY = 1.0, 64 << 10  # KiB
command = sys.argv[3:]
piped = command[0] == "-"
command = command[1:] if piped else command
folder = os.path.dirname(sys.argv[1])
slow = bool(os.environ.get("HK_SLOW"))


def measured(argv, path):
    """(status, stdout, stderr, seconds of processor time, KiB)"""
    with open(path, "rb") as f:
        p = subprocess.Popen(argv, stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        data = f.read() if piped else None
        try:
            out, err = p.communicate(data, timeout=20)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            return "does not end", out, err
        return p.returncode, out, err


def problems(entry, path):
    out = "made.out"
    if os.path.exists(out):
        os.unlink(out)
    argv = [path if a == "FILE" else out if a == "OUT" else a for a in command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status, stdout, stderr = measured(argv, path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = stderr.decode("utf-8", "backslashreplace").splitlines()
    allowed = {"reject": [1], "accept": [0], "either": [0, 1]}[entry["expect"]]
    if status not in allowed:
        yield "status %s, not %s: %s" % (status, allowed, lines[:2])
    if status == 1:
        shown = "standard input" if piped else path
        if len(lines) != 1 or not lines[0].startswith("%s: %s: " % (os.path.basename(command[0]), shown)):
            yield "says %r" % lines[:3]
        elif ", at 0x" not in lines[0]:
            yield "no offset: %s" % lines[0]
        if stdout and b'"cut":' not in stdout:
            yield "writes to standard output"
        if os.path.exists(out) or [n for n in os.listdir(".") if n.startswith(".made")]:
            yield "leaves its output"
    if not slow and seconds > SECONDS:
        yield "takes %.1f s" % seconds
    # The largest child so far: named only when it has just grown too large.
    if not slow and after.ru_maxrss > MEMORY >= before.ru_maxrss:
        yield "takes %d KiB" % after.ru_maxrss


count = 0
for entry in json.load(open(sys.argv[1])):
    if entry["format"] == sys.argv[2]:
        path = os.path.join(folder, entry["file"])
        count += 1
        for text in problems(entry, path):
            print("%s (%s): %s" % (entry["file"], entry["expect"], text))
print(count, "files")
