# Programs that use one file at the same time: readers see the old file or the new one, writers wait and say so.
load common.bash

setup() {
    common_setup
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    hk-convert model.gguf m.hk
}

# hold FILE RANGE shared|exclusive: a lock of hk(1) until killed; $holder is its process.
hold() {
    mkfifo ready
    "$PYTHON" -c '
import fcntl, os, struct, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
kind = fcntl.F_RDLCK if sys.argv[3] == "shared" else fcntl.F_WRLCK
fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", kind, 0, (1 << 62) + int(sys.argv[2]), 1, 0))  # F_OFD_SETLK
open("ready", "w").close()
time.sleep(60)' "$@" &
    holder=$!
    cat ready
    rm ready
}

@test "each answer beside edits, appends and rollbacks is that of one moment" {
    local reads=240
    [[ -z ${HK_FULL:-} ]] || reads=10000
    [[ -z ${SAN:-} ]] || reads=60
    t hk-run -n 1 --temp 0 m.hk Once
    assert_status 0
    t timeout 800 "$PYTHON" "$ROOT/tests/cli/beside.py" m.hk "$reads" "$output"
    echo "# $output" >&3
    assert_status 0
    assert_out_has "$reads reads"
    assert_out_has ", 0 wrong"
    t hk-verify m.hk
    assert_status 0
}

@test "a rollback waits for who uses the records, and says for whom" {
    printf '[1]' | hk-append --eval - m.hk
    hold m.hk 1 shared
    t hk-rollback --no-wait m.hk 0
    assert_status 2
    assert_err "hk-rollback: m.hk: another program is using its records, and it is not to be waited for"
    hk-rollback m.hk 0 >out 2>err &
    local rollback=$!
    for ((i = 0; i < 100; i++)); do
        [[ ! -s err ]] || break
        sleep 0.1
    done
    t hk-log m.hk
    assert_status 0
    assert_out_has '"index":0'
    # An edit has nothing to wait for.
    t hk-meta set --no-wait m.hk while waiting
    assert_status 2
    assert_err_has "another program is writing to it, and it is not to be waited for"
    kill "$holder"
    wait "$rollback"
    t cat err
    assert_out_like "^hk-rollback: m.hk: waiting: another program is using its records \(python3?[^ ]*, process $holder\)$"
    t cat out
    assert_out_has '"removed":1'
    t hk-meta set --no-wait m.hk while waiting
    assert_status 0
}

# hk-diff opens A and keeps its records, then waits for its standard input.
@test "a rollback waits for who uses the records of a set" {
    hk-convert --split-size 200k m.hk s.hk
    printf '[1]' | hk-append --eval - s.hk.index.json
    cp s-00001-of-00003.hk before.hk
    mkfifo input
    exec 8<>input
    hk-diff s-00002-of-00003.hk - <input >out 2>&1 3>&- 8>&- &
    local reader=$! i
    for ((i = 0; i < 100; i++)); do
        ! grep -qs OFDLCK /proc/$reader/fdinfo/* || break
        sleep 0.1
    done
    t hk-rollback --no-wait s.hk.index.json 0
    assert_fails 2 'another program is using its records'
    assert_same before.hk s-00001-of-00003.hk
    kill "$reader"
    wait "$reader" || true
    exec 8>&-
    t hk-rollback --no-wait s.hk.index.json 0
    assert_status 0
}

@test "edits and appends go on while records are used" {
    printf '[1]' | hk-append --eval - m.hk
    hold m.hk 1 shared
    t hk-meta set --no-wait m.hk while waiting
    assert_status 0
    t_sh 'printf "[2]" | hk-append --no-wait --eval - m.hk'
    assert_status 0
    kill "$holder"
}

@test "writers wait for each other, and readers do not" {
    hold m.hk 0 exclusive
    t hk-meta set --no-wait m.hk a b
    assert_status 2
    t_sh 'printf "[2]" | hk-append --no-wait --eval - m.hk'
    assert_status 2
    assert_err "hk-append: m.hk: another program is writing to it, and it is not to be waited for"
    t hk-rollback --no-wait m.hk 0
    assert_status 2
    for program in hk-inspect hk-verify hk-log; do
        t "$program" m.hk
        assert_status 0
    done
    # What a writer has at the end of the file is none of a reader's business.
    printf 'not yet a record' >>m.hk
    t hk-verify m.hk
    assert_status 0
    kill "$holder"
    wait "$holder" || true
    t hk-verify m.hk
    assert_status 1
    assert_err_has "belong to nothing"
}

@test "standard input is refused by name where a file is changed in place or has a signature beside it" {
    local command
    for command in 'hk-append --eval e.json -' 'hk-rollback - 0' 'hk-rollback --repair -' 'hk-meta set - a b'; do
        t_sh "$command <m.hk"
        assert_status 2
        assert_err_has 'standard input: cannot be changed in place; name a file'
    done
    t_sh 'hk-sign --key key.pem - <m.hk'
    assert_status 2
    assert_err_has '--output is needed'
}

@test "--no-wait is for what changes the file" {
    t hk-meta list --no-wait m.hk
    assert_status 2
    assert_err_has "--no-wait is not for list"
}

@test "a file that becomes shorter while it is read ends a program with a message" {
    mkfifo values
    "$PYTHON" -c '
import struct
head = b"{\"t\":{\"dtype\":\"F16\",\"shape\":[4096,4096],\"data_offsets\":[0,33554432]}}"
with open("big.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head)
    f.truncate(8 + len(head) + 33554432)'
    hk-dequant big.safetensors t >values 2>err &
    local program=$!
    exec 7<values
    head -c 1 <&7 >/dev/null
    truncate -s 4096 big.safetensors
    cat <&7 >/dev/null
    exec 7<&-
    local status=0
    wait "$program" || status=$?
    ((status == 2))
    t cat err
    assert_out_like "^hk-dequant: .*/big.safetensors: another program made it shorter while it was read$"
}
