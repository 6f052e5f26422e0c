# Files at the edge of what the format allows, changed in place: cases/hostile of the fixtures. Each is valid
# afterwards and as asked, or refused and as it was.
load common.bash

# take NAME: a copy of the case as f.hk, and what it was as old.hk.
take() {
    cp "$FIX/cases/hostile/$1" f.hk
    chmod u+w f.hk
    cp f.hk old.hk
}
is_old() { cmp -s f.hk old.hk || fail "the file was changed"; }
base() { hk-hash --base "$1" | cut -d' ' -f1; }
is_valid() {
    t hk-verify --payload f.hk
    assert_status 0
    [[ $(base f.hk) == "$(base old.hk)" ]] || fail "other tensors"
}
# value KEY: as text. has KEY TEXT.
has() {
    t hk-meta get f.hk "$1"
    assert_status 0
    assert_out "$2"
}
letters() { head -c "$1" /dev/zero | tr '\0' "${2:-x}"; }

# change STATUS PROGRAM...: and the file is valid, or as it was.
change() {
    local wanted=$1
    shift
    t "$@"
    assert_status "$wanted"
    if ((wanted == 0)); then is_valid; else is_old; fi
}

@test "metaonly: a file without tensors is edited, grows and shrinks" {
    for n in 1 40 300 5000 0; do
        take metaonly.hk
        change 0 hk-meta set f.hk k "$(letters $n)"
        has k "$(letters $n)"
        has general.name "Little stories"
        change 0 hk-meta delete f.hk k general.name
    done
}

@test "metaonly and nullonly: records come and go, and the file is what it was" {
    for name in metaonly nullonly; do
        take $name.hk
        t_sh 'printf "[1]" | hk-append --eval - f.hk'
        assert_status 0
        is_valid
        t_sh 'printf "[1]" | hk-append --eval - f.hk'
        assert_status 0
        is_valid
        change 0 hk-rollback f.hk 1
        t hk-rollback f.hk 0
        assert_status 0
        is_old
    done
}

@test "nullonly: nothing has to begin where no tensor has a byte" {
    take nullonly.hk
    t hk-verify f.hk
    assert_status 0
    change 0 hk-meta set f.hk k "$(letters 500)"
    has k "$(letters 500)"
}

@test "underflow: the last key goes, and the records stay" {
    take underflow.hk
    t hk-log f.hk
    local records=$output
    change 0 hk-meta delete f.hk ka
    t hk-log f.hk
    assert_out "$records"
    t hk-meta list f.hk
    assert_out_has '"metadata":{}'
}

@test "edit-*: whatever is done, the result opens and has no stray bytes" {
    for name in edit-230e edit-4910 edit-empty; do
        take $name.hk
        t hk-rollback --repair f.hk
        assert_status 0
        is_valid
        change 0 hk-meta set f.hk k "$(letters 100)"
        has k "$(letters 100)"
        t_sh 'printf "[1]" | hk-append --eval - f.hk'
        assert_status 0
        is_valid
        change 0 hk-rollback f.hk 0
        change 0 hk-meta set f.hk k v
        change 0 hk-meta delete f.hk k
        change 0 hk-rollback --repair f.hk
    done
}

@test "edit-empty: an edit of a few bytes does not cut off what it wrote" {
    take edit-empty.hk
    t hk-meta set f.hk k v
    assert_status 0
    is_valid
    has k v
}

@test "hidden-tail: an offset of records past the end hides nothing" {
    take hidden-tail.hk
    t hk-verify f.hk
    assert_status 1
    assert_err_has "1500 bytes follow the last section and belong to nothing"
    change 1 hk-meta set f.hk k v
    t_sh 'printf "[1]" | hk-append --eval - f.hk'
    assert_status 1
    is_old
    change 0 hk-rollback --repair f.hk
    [[ $(stat -c %s f.hk) == 280 ]]
    change 0 hk-meta set f.hk k "$(letters 300)"
}

@test "history-ub: an offset of records near 2^64 is no place" {
    take history-ub.hk
    change 0 hk-rollback f.hk 0
    change 0 hk-rollback --repair f.hk
    change 0 hk-meta set f.hk k "$(letters 300)"
    t_sh 'printf "[1]" | hk-append --eval - f.hk'
    assert_status 0
    is_valid
    # The same bytes from the fuzzer, behind the changes that it makes.
    tail -c +9 "$FIX/cases/hostile/fz-edit-2.bin" >f.hk
    cp f.hk old.hk
    change 0 hk-rollback --repair f.hk
    change 0 hk-meta set f.hk k "$(letters 300)"
}

@test "ref-edited-twice: the dead metadata of earlier edits are no reason to refuse the next" {
    take ref-edited-twice.hk
    for n in 1 72 500; do
        change 0 hk-meta set f.hk general.name "$(letters $n)"
        has general.name "$(letters $n)"
    done
}
