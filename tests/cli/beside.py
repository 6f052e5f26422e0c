#!/usr/bin/env python3
"""Readers beside writers of one .hk: beside.py FILE READS TEXT

Three programs read FILE in loops, READS times together (hk-inspect and hk-verify, and with TEXT, which is what
"hk-run -n 1" prints of it, that too), while others edit its metadata, append records and roll them back. Each answer has
to be that of one moment. Prints how many reads and changes there were and how many answers were wrong; the first wrong
ones go to standard error."""
import json
import subprocess
import sys
import threading

path, reads, text = sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
lock = threading.Lock()
left = reads
wrong = []
changes = {"edits": 0, "appends": 0, "rollbacks": 0}
done = threading.Event()


def run(*words, stdin=None):
    p = subprocess.run(words, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
    return p.returncode, p.stdout, p.stderr


def fixed(v):
    """What no change touches."""
    keys = {k: w for k, w in v["metadata"].items() if not k.startswith("beside.")}
    return json.dumps([keys, [t for t in v["tensors"]]], sort_keys=True)


def inspect_fault():
    status, out, err = run("hk-inspect", "--full", path)
    if status != 0 or err:
        return "status %d, %r" % (status, err[:200])
    v = json.loads(out)
    letters = v["metadata"].get("beside.letters", "")
    if len(letters) != v["metadata"].get("beside.count", 0) or letters.strip("x"):
        return "half an edit"
    if fixed(v) != before:
        return "other metadata or tensors"
    for i, r in enumerate(v["appendix"]):
        if r["crc"] not in ("ok", "absent") or r["lineage"] not in ("first", "ok") or r["name"] != "beside" or r["index"] != i:
            return "record %d: %r" % (i, r)
    return None


def verify_fault():
    status, out, err = run("hk-verify", path)
    if status != 0 or err:
        return "status %d, %r" % (status, err[:200])
    v = json.loads(out)
    return None if v["valid"] and not v["errors"] and not v["warnings"] else out[:300]


def run_fault():
    status, out, err = run("hk-run", "-n", "1", "--temp", "0", path, "Once")
    return None if status == 0 and out.decode().rstrip("\n") == text.rstrip("\n") else "status %d, %r, %r" % (status, out[:100], err[:200])


def read_loop(fault):
    global left
    while True:
        with lock:
            if left == 0 or len(wrong) > 20:
                return
            left -= 1
        why = fault()
        if why is not None:
            with lock:
                wrong.append("%s: %s" % (fault.__name__, why))


def must(status, out, err):
    if status != 0:
        with lock:
            wrong.append("a change: status %d, %r" % (status, err[:200]))


def edit_loop():
    n = 0
    while not done.is_set():
        n = (n * 7 + 13) % 1500
        must(*run("hk-meta", "import", path, stdin=json.dumps(
            {"beside.letters": {"type": "string", "value": "x" * n}, "beside.count": {"type": "int", "value": n}}).encode()))
        changes["edits"] += 1


def append_loop():
    while not done.is_set():
        for i in range(2):
            must(*run("hk-append", "--eval", "-", "--name", "beside", path, stdin=json.dumps([i] * 50).encode()))
            changes["appends"] += 1
        must(*run("hk-rollback", path, "0"))
        changes["rollbacks"] += 1


before = fixed(json.loads(run("hk-inspect", "--full", path)[1]))
faults = [inspect_fault, verify_fault] + ([run_fault] if text is not None else [])
writers = [threading.Thread(target=f) for f in (edit_loop, append_loop)]
readers = [threading.Thread(target=read_loop, args=(f,)) for f in faults]
for t in writers + readers:
    t.start()
for t in readers:
    t.join()
done.set()
for t in writers:
    t.join()
for w in wrong[:5]:
    print(w, file=sys.stderr)
print("%d reads, %d edits, %d appends, %d rollbacks, %d wrong" %
      (reads, changes["edits"], changes["appends"], changes["rollbacks"], len(wrong)))
sys.exit(1 if wrong else 0)
