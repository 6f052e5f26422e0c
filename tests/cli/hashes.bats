# Logits of small models of every type are those of tests/fixtures/logits, byte for byte, at every level that
# runs here, with 1 to 8 threads, in batches of 1 to 512
load common.bash

setup() {
    common_setup
    "$PYTHON" "$ROOT/tests/lib/mktypes.py" .
}

# same LINES OPTION... MODEL...: so many lines of the list are right.
same() {
    t "$PYTHON" "$ROOT/tests/hashes" "${@:2}"
    assert_status 0
    [[ $(grep -c '^ok ' <<<"$output") -eq $1 ]]
    grep -o 'levels .*' <<<"$output" | sort -u
}

@test "every type, with each number of threads and each batch" {
    same 29 "$FIX/logits/types.txt"
}

@test "some types, with each number of threads in each batch" {
    [[ -z ${SAN:-} ]] || skip "SKIPPED: takes long with sanitizers"
    same 2 --all "$FIX/logits/types.txt" q4_0 q6_k
}

@test "a difference is found and said" {
    sed 's/^./x/' "$FIX/logits/types.txt" >list
    t "$PYTHON" "$ROOT/tests/hashes" list q8_0
    assert_status 1
    assert_out_has 'not ok 1 - q8_0, 70 tokens'
    assert_out_like $'\n# level [a-z0-9]+, [1-8] threads, batch [0-9]+: [0-9a-f]{64}\n'
    cp q8_0.gguf f16.gguf
    t "$PYTHON" "$ROOT/tests/hashes" "$FIX/logits/types.txt" f16
    assert_status 1
    t "$PYTHON" "$ROOT/tests/hashes" "$FIX/logits/types.txt" none
    assert_status 1
}
