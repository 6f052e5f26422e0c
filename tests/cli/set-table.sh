# set-table.sh MODEL SHARD_BYTES: make a set of MODEL (a GGUF) in this directory, do to it what can be
# done, and print a row for each: what, exit status, seconds, and what was said. The programs are in
# PATH.
set -u

say() { # say WHAT COMMAND...: run it and print its row
    local what=$1 start end status said
    shift
    start=$(date +%s%3N)
    "$@" >out 2>err
    status=$?
    end=$(date +%s%3N)
    said=$(head -n 1 err)
    [[ -n $said ]] || said=$(verdict)
    printf '%s\t%d\t%d.%02d\t%s\n' "$what" $status $(((end - start) / 1000)) \
        $(((end - start) % 1000 / 10)) "$said"
}

# What a report on standard output says.
verdict() {
    /usr/bin/python3 - <<'PY'
import json
try:
    v = json.load(open("out"))
except ValueError:
    print(open("out").readline().strip())
else:
    c, s = v.get("checked", {}), v.get("signature")
    parts = [k + " " + str(v[k]).lower() for k in ("valid", "lineage", "kept", "removed") if k in v]
    parts += [k + " " + str(c[k]).lower() for k in ("base", "tensors") if k in c]
    parts += ["signature changed: " + ",".join(s["changed"])] if s and s["changed"] else []
    parts += ["signature good"] if s and s["genuine"] and not s["changed"] else []
    print(", ".join(parts))
PY
}

# Another byte in the middle of FILE, and the same again to undo it.
flip() {
    /usr/bin/python3 - "$1" <<'PY'
import os, sys
with open(sys.argv[1], "r+b") as f:
    f.seek(os.path.getsize(sys.argv[1]) // 2)
    b = f.read(1)[0]
    f.seek(-1, 1)
    f.write(bytes([b ^ 0x55]))
PY
}

model=$1 size=$2
openssl genpkey -algorithm ed25519 -out key.pem 2>/dev/null
openssl pkey -in key.pem -pubout -out key.pub
echo '{"passed": 1}' >eval.json
mkdir set
say 'split' hk-convert --split-size "$size" "$model" set/m.hk
shards=(set/m-*.hk)
index=set/m.hk.index.json last=${shards[-1]}
say 'verify' hk-verify --strict --payload set
say 'bind' hk-append --bind-base --eval eval.json "$last"
say 'verify bound' hk-verify --strict --payload "$index"
say 'sign' hk-sign --key key.pem "$index"
say 'verify signed' hk-verify --key key.pub "${shards[1]}"
for shard in "${shards[@]}"; do
    flip "$shard"
    say "byte of ${shard#set/}" hk-verify --payload "$index"
    say "the same, signature" hk-verify --key key.pub "$index"
    flip "$shard"
done
for shard in "${shards[@]:1:1}" "$last"; do
    mv "$shard" away
    say "without ${shard#set/}" hk-verify --payload set
    say 'the same, signature' hk-verify --key key.pub "$index"
    say 'the same, append' hk-append --eval eval.json "${shards[0]}"
    mv away "$shard"
done
cat "${shards[@]}" >cat.hk
say 'put together by cat' hk-verify cat.hk
rm cat.hk
say 'edit metadata' hk-meta set "$last" general.name 'Another name'
say 'verify edited' hk-verify --strict --payload --key key.pub set
say 'append' hk-append --eval eval.json --name more set
say 'verify appended' hk-verify --strict --payload --key key.pub set
say 'roll back' hk-rollback "$index" 1
say 'sign again' hk-sign --force --key key.pem set
say 'verify' hk-verify --strict --payload --key key.pub set
say 'convert whole' hk-convert set whole.hk
say 'verify whole' hk-verify --strict --payload --key key.pub --signature "${shards[0]}.sig" whole.hk
say 'compare' hk-diff set whole.hk
rm whole.hk
