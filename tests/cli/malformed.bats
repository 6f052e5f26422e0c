# GGUF and safetensors files that are broken on purpose, and controls that are not: every entry of the index, by
# every program that reads them and can be told what to do with all of them.
load common.bash

# malformed FORMAT COUNT COMMAND...: in tests/fixtures and, if it is there, in the shared directory.
malformed() {
    local index
    [[ -z ${SAN:-} ]] || export HK_SLOW=1
    for index in "$FIX/malformed/index.json" ${SHARED:+"$SHARED/fixtures/malformed/index.json"}; do
        t "$PYTHON" "$ROOT/tests/cli/malformed.py" "$index" "$1" "${@:3}"
        assert_status 0
        assert_err ''
        assert_out_like '^[0-9]+ files$'
        [[ ${output% files} -ge $2 ]] || fail 'entries are missing'
    done
}

gguf() { malformed gguf 79 "$@"; }
safetensors() { malformed safetensors 63 "$@"; }

@test "hk-inspect" { gguf hk-inspect FILE; }
@test "hk-inspect from a pipe" { gguf - hk-inspect -; }
@test "hk-convert" { gguf hk-convert --to gguf FILE OUT; }

@test "safetensors: hk-inspect" { safetensors hk-inspect FILE; }
@test "safetensors: hk-inspect from a pipe" { safetensors - hk-inspect -; }
@test "safetensors: hk-convert to .hk" { safetensors hk-convert --to hk FILE OUT; }
@test "safetensors: hk-convert to .hk from a pipe" { safetensors - hk-convert --to hk - OUT; }

@test "hk-convert from a pipe" {
    # Data that is not in the order of its table needs a file.
    gguf - hk-convert --to gguf - OUT
}

# To .hk the same, but for the types that .hk does not have.
@test "hk-convert to .hk" {
    mkdir set
    cp "$FIX"/malformed/*.gguf set
    "$PYTHON" - "$FIX/malformed/index.json" >set/index.json <<'PY'
import json, sys
entries = json.load(open(sys.argv[1]))
for e in entries:
    if e["file"] == "valid-all-tensor-types.gguf":
        e["expect"] = "reject"
print(json.dumps([e for e in entries if e["format"] == "gguf"]))
PY
    t "$PYTHON" "$ROOT/tests/cli/malformed.py" set/index.json gguf hk-convert FILE OUT
    assert_out "$(grep -o '"file"' set/index.json | wc -l) files"
    t hk-convert set/valid-all-tensor-types.gguf x.hk
    assert_fails 1 q1_0
}

@test "hk-run refuses what is a sound container without a sound model" {
    [[ -x $BIN/hk-run ]] || skip 'SKIPPED: no hk-run here'
    local file
    for file in tokens-scores-differ tokens-not-strings no-architecture block-count-2e32; do
        t hk-run "$FIX/malformed/$file.gguf" hello
        assert_fails 1 "$file"
    done
}
