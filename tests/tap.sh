# tap.sh: TAP for the checks written in shell; source it, check, and end with `finish`.
# shellcheck shell=sh
tests=0 failures=0

# pass NAME, fail NAME [WHY]: WHY may have many lines.
pass() {
    tests=$((tests + 1))
    printf 'ok %d - %s\n' $tests "$1"
}

fail() {
    tests=$((tests + 1)) failures=$((failures + 1))
    printf 'not ok %d - %s\n' $tests "$1"
    [ -z "${2:-}" ] || printf '%s\n' "$2" | head -n 60 | sed 's/^/# /'
}

skip() {
    tests=$((tests + 1))
    printf 'ok %d - %s # SKIP %s\n' $tests "$1" "$2"
}

# none NAME LIST: passes when the list of offences is empty.
none() {
    if [ -z "$2" ]; then pass "$1"; else fail "$1" "$2"; fi
}

# same NAME EXPECTED ACTUAL
same() {
    if [ "$2" = "$3" ]; then
        pass "$1"
    else
        fail "$1" "$(printf 'expected:\n%s\ngot:\n%s' "$2" "$3")"
    fi
}

# works NAME COMMAND...: passes when the command succeeds; its output tells why it does not.
works() {
    what=$1
    shift
    if said=$("$@" 2>&1); then pass "$what"; else fail "$what" "$said"; fi
}

# tracked [PATTERN...]: the files git tracks and that exist.
tracked() {
    git -c safe.directory='*' ls-files -- "$@" |
        while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done
}

finish() {
    printf '1..%d\n' $tests
    [ $failures = 0 ]
}
