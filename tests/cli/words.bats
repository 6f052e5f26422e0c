# The words of JSON: every member that a program prints stands in its manual page, and one thing has one word.
load common.bash

setup() {
    common_setup
    make_models
    cp model.hk m.hk
    hk-append -q --lora "$FIX/adapter" --name timmy --loss 0.5 m.hk >/dev/null
    openssl genpkey -algorithm ed25519 -out key.pem 2>/dev/null
    openssl pkey -in key.pem -pubout -out key.pub
    hk-sign -q --key key.pem m.hk
    hk-meta set model.hk general.name other
    head -c 500000 m.hk >cut.hk
    printf 'Once upon a time' >text
}

outputs() {
    cat <<'END'
hk-bench --prefill 2 --decode 1 --reps 1 m.hk
hk-dequant --json --rows 0:1 m.hk output_norm.weight
hk-detokenize --json m.hk 403
hk-diff --json m.hk model.hk
hk-hardware-profile
hk-hash --json m.hk
hk-inspect --typed m.hk
hk-inspect cut.hk
hk-log m.hk
hk-merge m.hk merged.hk
hk-meta list --typed m.hk
hk-perplexity m.hk <text
hk-rollback --dry-run m.hk 0
hk-run --json -n 2 m.hk Once
hk-tokenize --json --pieces m.hk Once
hk-verify --payload --key key.pub m.hk
hk-verify cut.hk
END
}

@test "every member is in the manual, by one name" {
    while read -r line; do
        bash -c "$line" >out.json 2>err || [[ $line == *cut.hk || $line == hk-diff* ]] || fail "$line: $(cat err)"
        "$PYTHON" - out.json "$ROOT/man/${line%% *}.1" "$line" <<'PY'
import json, re, sys
text = open(sys.argv[1]).read()
if not text.strip():
    sys.exit()
page, found = open(sys.argv[2]).read(), set()
if "hk-meta" in sys.argv[2]: # which refers to it for values
    page += open(sys.argv[2].replace("hk-meta", "hk-inspect")).read()
def collect(v, key):
    if isinstance(v, dict):
        for k, w in v.items():
            if key not in ("metadata", "digests"): # names of keys, of tensors
                found.add(k)
            collect(w, k if key not in ("metadata",) else "value of " + k)
    elif isinstance(v, list):
        for w in v:
            collect(w, key)
collect(json.loads(text), "")
missing = [k for k in sorted(found) if not re.search(r"(?<![a-z_])%s(?![a-z_])" % re.escape(k), page)]
assert not missing, (sys.argv[3], missing)
banned = {"path", "filename", "model_file", "entries", "int", "float"} & found
assert not banned, (sys.argv[3], banned)
PY
    done < <(outputs)
}

@test "what is read is named by file, a history by records" {
    while read -r line; do
        case $line in hk-dequant* | hk-detokenize* | hk-tokenize* | hk-diff* | hk-hardware* | hk-merge*) continue ;; esac
        bash -c "$line" >out.json 2>/dev/null || [[ $line == *cut.hk ]]
        [[ $(json out.json 'v.get("file")') == *.hk ]] || fail "$line has no file"
    done < <(outputs)
    [[ $(hk-diff --json m.hk model.hk | json - 'v["records"] == v["appendix"] and len(v["records"]["removed"])') == 1 ]]
    [[ $(hk-inspect m.hk | json - 'v["records"] == v["appendix"]') == True ]]
    [[ $(hk-log m.hk | json - 'v["records"]') == "$(hk-inspect m.hk | json - 'v["records"]')" ]]
}
