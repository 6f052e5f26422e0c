#!/usr/bin/python3
"""Run every program on every file of a directory of hostile ones, within 5 s, 200 MiB resident and
files of 100 MiB; ends with an answer, not a signal. Prints what did not.

usage: hostile.py DIRECTORY
"""
import os
import resource
import shutil
import subprocess
import sys

SECONDS, MIB, FILE_MIB = 5, 200, 100
if os.environ.get("SAN"):
    SECONDS, MIB = 10 * SECONDS, 10 * MIB + 1024

# F: the file; C: a copy that may be changed; OUT: a place for output
COMMANDS = """hk-inspect F|hk-inspect --table F|hk-inspect --full F|hk-verify F|hk-verify --payload F
hk-hash F|hk-dequant --all OUT F|hk-dequant --all OUT --text F|hk-convert F OUT.hk|hk-convert F OUT.gguf
hk-convert F OUT.safetensors|hk-convert --type f32 F OUT.safetensors|hk-convert --to hf F OUT
hk-convert --split-size 1k F OUT.hk|hk-convert --align 65536 F OUT.hk|hk-merge F OUT.hk|hk-diff F F
hk-diff --json F F|hk-log F|hk-log --table F|hk-log -x 0 F|hk-log -x 0 --to peft -o OUT F
hk-meta list F|hk-meta list --full F|hk-meta export F|hk-meta set C a 1|hk-meta delete C a
hk-tokenize F text|hk-detokenize F 1|hk-run -n 2 F hi|hk-perplexity F|hk-bench F
hk-append --kv-cache F --name x C|hk-append --lora F --name x C|hk-rollback C 0|hk-rollback --repair C"""


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MIB << 20, FILE_MIB << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(words):
    p = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, preexec_fn=limit, restore_signals=True)
    _, status, usage = os.wait4(p.pid, 0)
    if os.WIFSIGNALED(status):
        return "signal %d" % os.WTERMSIG(status)
    if os.WEXITSTATUS(status) > 2:
        return "status %d" % os.WEXITSTATUS(status)
    if usage.ru_maxrss > MIB << 10:
        return "%d MiB" % (usage.ru_maxrss >> 10)
    if any(os.path.getsize(os.path.join(d, f)) >= FILE_MIB << 20 for d, _, fs in os.walk(".") for f in fs):
        return "a large file"
    return None


bad = count = 0
os.mkdir("work")
os.chdir("work")
for name in sorted(os.listdir(sys.argv[1])):
    for command in COMMANDS.replace("\n", "|").split("|"):
        shutil.copy(os.path.join(sys.argv[1], name), "copy")
        words = [{"F": os.path.join(sys.argv[1], name), "C": "copy"}.get(w, w.replace("OUT", "out"))
                 for w in command.split()]
        why = run(words)
        count += 1
        if why is not None:
            bad += 1
            print("%s: %s: %s" % (name, command, why))
        for left in os.listdir("."):
            shutil.rmtree(left) if os.path.isdir(left) else os.unlink(left)
print("%d runs, %d bad" % (count, bad))
sys.exit(bad > 0)
