# shellcheck shell=bash disable=SC2154,SC2016 # run sets status, output, stderr; lines for sh
# common.bash: what every CLI test has: programs in PATH, a directory of its own, and assertions on
# standard output, standard error and status that show all three when they fail.
#
#   BIN      programs under test, absolute (B/bin; B defaults to build)
#   FIX      tests/fixtures
#   SHARED   the shared directory (HK_SHARED, else ../shared if it is there, else empty)
#   MKHK     the maker of .hk files (mkhk.py)

bats_require_minimum_version 1.5.0

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
B=${B:-build}
[[ $B == /* ]] || B=$ROOT/$B
BIN=$B/bin
export FIX=$ROOT/tests/fixtures
SHARED=${HK_SHARED:-}
[[ -n $SHARED || ! -d $ROOT/../shared/fixtures ]] || SHARED=$(cd "$ROOT/../shared" && pwd)
export MKHK=$ROOT/tests/lib/mkhk.py
PYTHON=/usr/bin/python3
export PATH=$BIN:$PATH LC_ALL=C TZ=UTC
unset POSIXLY_CORRECT HK_KERNELS HK_GPU HK_THREADS HK_API_KEY

# A suite with a setup of its own calls this first.
# (bats keeps files of its own in BATS_TEST_TMPDIR.)
common_setup() {
    mkdir "$BATS_TEST_TMPDIR/d" && cd "$BATS_TEST_TMPDIR/d" || return 1
}
setup() { common_setup; }

# Run a command; afterwards $status, $output (standard output) and $stderr hold what it did.
t() { run --separate-stderr "$@"; }
# The same with standard input from file $1.
t_from() {
    local input=$1
    shift
    t bash -c 'exec "$@" <"$0"' "$input" "$@"
}
# The same of a shell line, for pipelines; the line sees the arguments as $1...
t_sh() {
    local line=$1
    shift
    t bash -c "$line" sh "$@"
}

fail() {
    printf '%s\n' "$1" "status: $status" "stdout: ${output:0:2000}" "stderr: ${stderr:0:2000}" >&2
    return 1
}
assert_status() { [[ $status -eq $1 ]] || fail "expected status $1"; }
# Whole text, a part of it, or an extended regular expression.
assert_out() { [[ $output == "$1" ]] || fail "expected on stdout: $1"; }
assert_out_has() { [[ $output == *"$1"* ]] || fail "expected in stdout: $1"; }
refute_out_has() { [[ $output != *"$1"* ]] || fail "not expected in stdout: $1"; }
assert_out_like() { [[ $output =~ $1 ]] || fail "expected stdout to match: $1"; }
assert_err() { [[ $stderr == "$1" ]] || fail "expected on stderr: $1"; }
assert_err_has() { [[ $stderr == *"$1"* ]] || fail "expected in stderr: $1"; }
refute_err_has() { [[ $stderr != *"$1"* ]] || fail "not expected in stderr: $1"; }
assert_err_like() { [[ $stderr =~ $1 ]] || fail "expected stderr to match: $1"; }
# One line on standard error, none on standard output, the status given: how a failure looks.
assert_fails() {
    assert_status "$1" && assert_out '' && { [[ $(wc -l <<<"$stderr") -eq 1 && -n $stderr ]] ||
        fail 'expected one line on stderr'; } && assert_err_has "${2:-hk}"
}
# The command fails. (A line "! command" would not fail a test.)
refute() { if "$@"; then fail "did not fail: $*"; fi; }
# Nothing but the named files is in the test's directory.
assert_files() {
    local expected found
    expected=$(printf '%s\n' "$@" | sort)
    found=$(find . -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)
    [[ $found == "$expected" ]] || fail "expected files: $expected"$'\n'"found: $found"
}
assert_same() { cmp "$1" "$2" >&2 || fail "files differ: $1 $2"; }

# The bytes of standard input or of files in hexadecimal.
hex() { od -An -v -tx1 "$@" | tr -d ' \n'; }

# json FILE EXPR: the Python expression EXPR of the JSON in FILE ("-" is stdin) as v; None, True
# and False print as such, text plainly, anything else as JSON. Fails where FILE is no JSON (RFC
# 8259: no NaN, no control characters, no duplicate keys, UTF-8).
json() {
    "$PYTHON" - "$1" "$2" 3<&0 <<'PY'
import json, sys, math
def unique(pairs):
    d = dict(pairs)
    assert len(d) == len(pairs), "duplicate key"
    return d
def no_constant(name):
    raise ValueError(name)
path, expr = sys.argv[1:]
data = open(3, "rb").read() if path == "-" else open(path, "rb").read()
v = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
r = eval(expr)
print(r if isinstance(r, (str, bool, type(None))) else json.dumps(r, separators=(",", ":")))
PY
}
# assert_json EXPR VALUE: the same of the last run's standard output.
assert_json() {
    local got
    got=$(printf '%s' "$output" | json - "$1") || fail "no JSON, or no $1"
    [[ $got == "$2" ]] || fail "expected $1 to be $2, not $got"
}

# ---- what a test needs ----

need_shared() {
    [[ -n $SHARED ]] || skip 'SKIPPED: the shared fixtures are not there (set HK_SHARED)'
}
need() {
    command -v "$1" >/dev/null || skip "SKIPPED: no $1 here"
}

# ---- making files ----

mkhk() { "$PYTHON" "$MKHK" "$@"; }
# A FIFO that nobody writes to.
make_fifo() { mkfifo "$1"; }
# A file that the programs may not read. Root reads everything, so as root they run as nobody.
make_unreadable() {
    printf 'secret' >"$1"
    chmod 000 "$1"
    chmod a+rx "$BATS_TEST_TMPDIR" .
}
t_unprivileged() {
    if [[ $(id -u) -ne 0 ]]; then
        t "$@"
        return
    fi
    command -v setpriv >/dev/null || skip 'SKIPPED: running as root and no setpriv here'
    setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$BIN/hk" ||
        skip 'SKIPPED: running as root, and nobody cannot reach the programs'
    t setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
# model.gguf and model.hk: a small trained model with f16 matrices.
make_models() {
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    [[ -x $BIN/hk-convert ]] || skip 'SKIPPED: no hk-convert here'
    "$BIN/hk-convert" model.gguf model.hk
}
