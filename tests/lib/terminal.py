"""What a person sees: run a shell line in a pseudo-terminal, type into it, and print what it shows.

usage: terminal.py [PATTERN KEYS]... LINE

KEYS are typed once the terminal has shown the regular expression PATTERN (behind what the last one matched); in them ^C
and ^D stand for these keys, \\n for Enter. The last line printed is "status N", N as the shell has it."""
import os
import pty
import re
import select
import sys
import time

*script, line = sys.argv[1:]
steps = [(re.compile(p.encode()), k.encode().decode("unicode_escape").replace("^C", "\x03").replace("^D", "\x04").encode())
         for p, k in zip(script[::2], script[1::2])]
pid, master = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "--norc", "-c", line])
shown, seen, end = b"", 0, time.monotonic() + 60
while time.monotonic() < end:
    if not select.select([master], [], [], 0.1)[0]:
        continue
    try:
        data = os.read(master, 65536)
    except OSError:  # the other side is closed
        break
    if not data:
        break
    shown += data
    while steps and (m := steps[0][0].search(shown, seen)):
        seen = m.end()
        os.write(master, steps.pop(0)[1])
else:
    os.kill(pid, 9)
_, status = os.waitpid(pid, 0)
sys.stdout.write(shown.decode("utf-8", "replace").replace("\r\n", "\n"))
code = os.waitstatus_to_exitcode(status)
print("status %d" % (code if code >= 0 else 128 - code))
