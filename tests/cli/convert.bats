# hk-convert: both directions, streams, and what becomes of outputs and inputs when it fails.
load common.bash

GGUF=$FIX/models/stories260K-f16.gguf
setup() {
    common_setup
    cp "$GGUF" model.gguf
}
dump() { "$PYTHON" "$ROOT/tests/lib/ggufdump.py" "$@"; }

# FILE goes to .hk and back with equal keys, types, values, order, and tensor bytes.
round_trip() {
    hk-convert -f "$1" rt.hk
    hk-convert -f rt.hk rt.gguf
    dump "$1" >before.txt
    dump --strict rt.gguf >after.txt
    cmp before.txt after.txt >&2 || fail "$1 comes back changed"
    [[ -n ${2:-} ]] || return 0
    hk-verify "$2" rt.hk >/dev/null
    hk-convert -f - piped.hk < <(cat "$1")
    assert_same rt.hk piped.hk
}

@test "GGUF to .hk and back: the model of the tests" {
    round_trip model.gguf --payload
    assert_same model.gguf rt.gguf
    hk-convert -f model.gguf again.hk
    assert_same rt.hk again.hk
}

@test "GGUF to .hk and back: every control of the malformed suite" {
    local name
    for name in valid-{base,no-tensors,empty,v2,align64,all-value-types,4d,trailing-bytes} nested-array \
        alignment-is-u64 n-dims-0 dim-zero offset-gap offset-order key-not-utf8 string-not-utf8 \
        tokens-scores-differ tokens-not-strings no-architecture block-count-2e32; do
        round_trip "$FIX/malformed/$name.gguf"
    done
}

@test "GGUF to .hk and back: every model of the shared directory" {
    need_shared
    local file count=0
    while IFS= read -r file; do
        round_trip "$file" --payload
        count=$((count + 1))
    done < <(find "$SHARED"/fixtures/{models,trained,tokenizers} -name '*.gguf')
    [[ $count -ge 10 ]] || fail "only $count models found"
}

@test "the peer gives the same logits for the file that went there and back" {
    need_shared
    [[ -n ${PEER_LIB:-} ]] || skip 'SKIPPED: PEER_LIB does not say where llama.cpp is'
    local name
    "$PYTHON" -c 'import struct; open("ids","wb").write(struct.pack("<6I",1,403,407,261,378,400))'
    for name in '' -f16 -bf16 -q8_0 -q5_1 -q4_0 -iq4_nl; do
        round_trip "$SHARED/fixtures/models/stories260K$name.gguf"
        "$PYTHON" "$SHARED/peer/peer.py" logits "$SHARED/fixtures/models/stories260K$name.gguf" \
            --tokens ids --out before.f32
        "$PYTHON" "$SHARED/peer/peer.py" logits rt.gguf --tokens ids --out after.f32
        assert_same before.f32 after.f32
    done
}

@test "value types that .hk does not tell are recorded, others not" {
    hk-convert "$FIX/malformed/valid-all-value-types.gguf" x.hk
    t hk-inspect --metadata x.hk
    assert_json 'v["metadata"]["hk.source.format"]' gguf
    assert_json 'v["metadata"]["hk.source.gguf_version"]' 3
    assert_json 'v["metadata"]["hk.gguf.types"]["k.0"]' u8
    assert_json 'v["metadata"]["hk.gguf.types"]["a.11"]' 'array<i64>'
    assert_json '[k for k in ("k.4","k.6","k.7","k.8","a.5","a.6","a.8") if k in v["metadata"]["hk.gguf.types"]]' '[]'
    hk-convert model.gguf model.hk
    t hk-inspect --metadata model.hk
    assert_json '"hk.gguf.types" in v["metadata"]' False
}

@test "the output's format: --to, else its name, else .hk" {
    hk-convert model.gguf a.hk
    hk-convert model.gguf b.gguf
    hk-convert model.gguf c.bin
    hk-convert --to hk model.gguf d.gguf
    hk-convert --to gguf a.hk e.hk
    assert_same a.hk c.bin
    assert_same a.hk d.gguf
    assert_same model.gguf b.gguf
    assert_same model.gguf e.hk
    hk-convert model.gguf f.safetensors
    hk-convert --to safetensors a.hk g
    t hk-inspect f.safetensors g
    assert_status 0
    hk-convert --to hk model.gguf h.safetensors
    assert_same a.hk h.safetensors
    hk-convert model.gguf i/
    hk-convert --to hf model.gguf j
    diff -r i j >&2
    hk-convert -f a.hk j
    [[ -e j/config.json && ! -e j/j ]]
}

@test "standard input and output" {
    hk-convert model.gguf x.hk
    t_sh 'cat model.gguf | hk-convert - a.hk && cat x.hk | hk-convert - b.gguf && hk-convert - c.hk <x.hk &&
        hk-convert - d.hk <model.gguf && hk-convert x.hk --to gguf - >e.gguf && hk-convert model.gguf - | cat >f.hk &&
        cat model.gguf | hk-convert --to gguf - - | hk-convert - - | hk-convert - --to gguf - >g.gguf'
    assert_status 0
    assert_err ''
    local name
    for name in a c d f; do assert_same x.hk $name.hk; done
    for name in b e g; do assert_same model.gguf $name.gguf; done
}

@test "a GGUF from a pipe is not held in memory" {
    [[ -z ${SAN:-} ]] || skip 'SKIPPED: sizes mean nothing under a sanitizer'
    "$PYTHON" - <<'PY'
import struct
rows = 96 << 10
with open("big.gguf", "wb") as f:
    f.write(b"GGUF" + struct.pack("<IQQ", 3, 1, 0))
    f.write(struct.pack("<Q1sIQQIQ", 1, b"t", 2, 256, rows, 0, 0))
    f.write(b"\0" * (-f.tell() % 32))
    f.truncate(f.tell() + rows * 1024)
PY
    t_sh 'cat big.gguf | "$1" -c "import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdin=0)
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)" hk-convert - big.hk' "$PYTHON"
    assert_status 0
    [[ ${output% *} -eq 0 && ${output#* } -lt 32768 ]] || fail 'status 0 and less than 32 MiB'
    hk-convert big.hk back.gguf
    assert_same big.gguf back.gguf
}

@test "--align" {
    local n
    for n in 1 64 4096 65536; do
        hk-convert --align $n model.gguf a$n.hk
        hk-convert --align $n a$n.hk a$n.gguf
        t hk-inspect --tensors --header a$n.hk
        assert_json "[v['header']['alignment'], [t for t in v['tensors'] if t['offset'] % $n]]" "[$n,[]]"
        dump --strict a$n.gguf | grep -v general.alignment >after.txt
        dump model.gguf | cmp - after.txt >&2 || fail "changed by --align $n"
    done
    dump a64.gguf >after.txt
    grep -qF "key b'general.alignment' u32 64" after.txt
    hk-convert a65536.hk plain.hk
    hk-convert model.gguf x.hk
    assert_same x.hk plain.hk
}

@test "options are checked before any file is looked at" {
    local arguments
    for arguments in '--split-size 0' '--split-size x' '--split-size 1X' '--type q4_0 --to hf' '--type q4_0' \
        '--type bf16 --to gguf' '--keep-history --to gguf' '--keep-history --no-history' '--align 64 --to hf' '--align 64 --to safetensors' \
        '--align 3' '--align 0' '--align 131072' '--align x' '--align 4k' '--to exe' '--to' '--what' \
        '-x' 'more'; do
        # shellcheck disable=SC2086
        t hk-convert missing out.hk $arguments
        assert_status 2
        assert_out ''
        refute_err_has missing:
    done
    for arguments in '--to hf' '--split-size 1G'; do
        # shellcheck disable=SC2086
        t hk-convert missing - $arguments
        assert_status 2
        assert_err_has 'standard output is one file'
    done
    t hk-convert missing
    assert_status 2
    assert_files model.gguf
}

@test "an output that exists is replaced only with -f, and keeps its permissions" {
    echo precious >x.hk
    chmod 640 x.hk
    t hk-convert model.gguf x.hk
    assert_fails 2 'hk-convert: x.hk: '
    [[ $(<x.hk) == precious ]]
    t hk-convert -f model.gguf x.hk
    assert_status 0
    hk-verify x.hk >/dev/null
    [[ $(stat -c %a x.hk) == 640 ]]
    hk-convert --force model.gguf x.hk
    assert_files model.gguf x.hk
}

@test "the input survives whatever the output is called" {
    local name
    ln -s model.gguf link.gguf
    ln model.gguf hard.gguf
    mkdir sub
    for name in model.gguf ./model.gguf sub/../model.gguf link.gguf hard.gguf; do
        t hk-convert -f model.gguf "$name"
        assert_fails 2 'the output is the input'
        t hk-convert -f "$name" model.gguf
        assert_fails 2 'the output is the input'
        t_from model.gguf hk-convert -f - "$name"
        assert_fails 2 'the output is the input'
    done
    t_sh 'hk-convert model.gguf - >>model.gguf'
    assert_status 2
    assert_same "$GGUF" model.gguf
    assert_files model.gguf link.gguf hard.gguf sub
}

@test "a failure leaves nothing behind, and an old output as it was" {
    head -c 300000 model.gguf >cut.gguf
    t hk-convert cut.gguf x.hk
    assert_fails 1 'hk-convert: cut.gguf: '
    t_sh 'cat cut.gguf | hk-convert - x.hk'
    assert_fails 1 'hk-convert: standard input: '
    echo old >x.hk
    t_sh 'cat cut.gguf | hk-convert -f - x.hk'
    assert_fails 1 'the stream ends'
    [[ $(<x.hk) == old ]]
    assert_files cut.gguf model.gguf x.hk
}

@test "killed in the middle it leaves nothing, or the old output" {
    local signal
    mkfifo feed
    for signal in TERM INT HUP KILL; do
        echo old >old.hk
        for out in new.hk old.hk; do
            hk-convert -f - $out <feed 2>err.txt &
            local pid=$!
            exec 7>feed
            head -c 400000 model.gguf >&7
            sleep 0.2
            kill -$signal $pid
            exec 7>&-
            ! wait $pid || fail "survives $signal"
        done
        rm err.txt
        [[ $(<old.hk) == old ]]
        assert_files feed model.gguf old.hk
    done
}

@test "a FIFO that nobody reads is waited for until a signal ends that" {
    local status=0
    mkfifo sink
    timeout -k 20 0.5 hk-convert --to hk model.gguf sink || status=$?
    [[ $status -eq 124 ]] || fail "status $status"
    assert_files model.gguf sink
}

@test "a pipe is told from its first four bytes, however few come at once" {
    "$PYTHON" - <<'PY'
import struct
header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'.ljust(ord("G"))
open("g.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + b"x")
PY
    local name
    for name in g.safetensors model.gguf; do
        hk-convert "$name" want.hk
        (head -c 1 "$name" && sleep 0.3 && tail -c +2 "$name") | hk-convert - got.hk
        assert_same want.hk got.hk
        rm want.hk got.hk
    done
}

@test "a full disk" {
    [[ -c /dev/full ]] || skip 'SKIPPED: no /dev/full here'
    t_sh 'hk-convert model.gguf - >/dev/full'
    assert_fails 2 'standard output'
    t hk-convert -f model.gguf /dev/full
    assert_fails 2 '/dev/full'
    t_sh 'cat model.gguf | hk-convert - - >/dev/full'
    assert_fails 2 'No space left'
    [[ -c /dev/full ]]
}

@test "a limit on the size of files" {
    t_sh 'ulimit -f 100; exec hk-convert model.gguf x.hk'
    assert_fails 2 'hk-convert: x.hk: cannot write: File too large'
    assert_files model.gguf
}

@test "a reader that leaves ends it quietly" {
    t_sh 'hk-convert model.gguf - | head -c 4'
    assert_status 0
    assert_out HKNT
    assert_err ''
    t_sh 'cat model.gguf | hk-convert - --to gguf - | head -c 4'
    assert_out GGUF
    assert_err ''
}

@test "inputs that are no models" {
    mkdir dir
    make_fifo fifo
    : >empty
    printf '<html>' >page
    ln -s nowhere dangling
    local name
    for name in dir missing dangling; do
        t timeout 10 hk-convert $name x.hk
        assert_fails 2 "hk-convert: $name: "
    done
    for name in empty page; do
        t hk-convert $name x.hk
        assert_fails 1 "hk-convert: $name: "
    done
    t_sh ': | hk-convert - x.hk'
    assert_fails 1 'hk-convert: standard input: '
    t_sh 'echo Going on | hk-convert - x.hk'
    assert_fails 1 'hk-convert: standard input: not a .hk, GGUF'
    make_unreadable secret
    t_unprivileged hk-convert secret x.hk
    assert_fails 2 'secret: '
    assert_files dangling dir empty fifo model.gguf page secret
}

@test "outputs that cannot be" {
    mkdir dir
    ln -s nowhere dangling
    local name
    for name in dir no/such/x.hk dangling; do
        t hk-convert --to hk -f model.gguf $name
        assert_fails 2 "hk-convert: $name: "
    done
    for name in model.gguf no/such/place dangling; do
        t hk-convert --to hf -f model.gguf $name
        assert_fails 2 "hk-convert: $name: "
        t hk-convert --split-size 100k -f model.gguf no/$name
        assert_fails 2 "hk-convert: no/$name: "
    done
    t hk-convert model.gguf ''
    assert_fails 2 'hk-convert: : cannot create: No such file or directory'
    assert_files dangling dir model.gguf
}

@test "paths are bytes" {
    local name
    for name in 'a b.gguf' $'new\nline.gguf' $'\xff\xfe.gguf' 'ü.gguf' '-f' '--to'; do
        cp model.gguf "./$name"
        hk-convert -f -- "$name" out.hk
        hk-convert --to gguf -f out.hk "./$name.back"
        assert_same model.gguf "./$name.back"
        printf junk >"./$name"
        t hk-convert -- "$name" x.hk
        assert_fails 1
    done
}

@test "what the other format cannot carry is refused by name" {
    t hk-convert "$FIX/malformed/valid-all-tensor-types.gguf" x.hk
    assert_fails 1 "tensor t41: .hk has no storage type q1_0"
    mkhk r.hk '{"appendix":[{"name":"r","data":"x"}]}'
    t hk-convert r.hk x.gguf
    assert_fails 1 'gguf cannot hold the appendix of 1 record; --no-history leaves it out'
    mkhk b.hk '{"metadata":[["k.opaque","bytes",{"hex":"0102"}]]}'
    t hk-convert b.hk x.gguf
    assert_fails 1 k.opaque
    assert_files b.hk model.gguf r.hk
}

@test ".hk to .hk keeps the appendix" {
    mkhk r.hk '{"appendix":[{"name":"r","data":"x"},{"name":"s","data":"yy"}]}'
    hk-inspect --appendix --full r.hk >before.json
    hk-convert --align 4096 r.hk x.hk
    hk-inspect --appendix --full x.hk >after.json
    local field='[[r[k] for k in ("name","target","hash","parent_hash","crc32","size")] for r in v["appendix"]]'
    [[ $(json before.json "$field") == "$(json after.json "$field")" ]]
    [[ $(json after.json 'len(v["appendix"])') == 2 ]]
}

@test "a sharded set becomes one file, without the keys of its parts" {
    local i
    for i in 0 1; do
        mkhk s-0000$((i + 1))-of-00002.hk '{"header":{"split_index":'$i',"split_count":2,"flags":81},
            "metadata":[["k","string","v"],["split_index","int64",'$i'],["split_count","int64",2],
                ["total_tensors","string","2"]],
            "tensors":[{"name":"t'$i'","type":"f32","shape":[2],"data":{"f32":[1,'$i']}}]}'
    done
    hk-convert s-00002-of-00002.hk whole.hk
    t hk-inspect --header --metadata --tensors whole.hk
    assert_json '[v["header"]["split_index"],v["header"]["split_count"],"is_sharded" in v["header"]["flags"]]' \
        '[0,1,false]'
    assert_json '[v["metadata"],[t["name"] for t in v["tensors"]]]' '[{"k":"v"},["t0","t1"]]'
    hk-verify --strict whole.hk >/dev/null
    hk-convert s-00001-of-00002.hk whole.gguf
    dump --strict whole.gguf >dump.txt
    [[ $(grep -c ^key dump.txt) -eq 1 && $(grep -c ^tensor dump.txt) -eq 2 ]] || fail "$(<dump.txt)"
    rm s-00002-of-00002.hk
    t hk-convert s-00001-of-00002.hk other.hk
    assert_fails 1 00002
}

@test "progress is shown on a terminal only" {
    t hk-convert model.gguf x.hk
    assert_status 0
    assert_out ''
    assert_err ''
    need script
    t script -qec '(head -c 200000 model.gguf; sleep 1; tail -c +200001 model.gguf) | hk-convert -f - x.hk' log.txt
    assert_status 0
    assert_out_like 'converting \[.*\] +[0-9]+%'
}

@test "GGUF to .hk to safetensors to .hk to GGUF: nothing is lost" {
    local file count=0 places=("$FIX/models")
    [[ -z $SHARED ]] || places+=("$SHARED"/fixtures/{models,trained,tokenizers})
    while IFS= read -r file; do
        hk-convert -f "$file" one.hk
        t hk-convert -f --type f32 one.hk rt.safetensors
        assert_status 0
        hk-convert -f rt.safetensors two.hk
        hk-convert -f two.hk rt.gguf
        dump "$file" >before.txt
        dump --strict rt.gguf >after.txt
        if [[ -z $stderr ]]; then
            assert_same one.hk two.hk
            assert_same before.txt after.txt
            count=$((count + 1))
        else
            assert_err_like 'hk-convert: rt.safetensors: lost: [0-9]+ tensors? of type '
            # What they say of the quantisation is told to be left out too.
            assert_err_has "lost: key general.file_type: left out"
            diff <(grep ^key before.txt | grep -v 'general\.\(file_type\|quantization_version\)') \
                <(grep ^key after.txt) >&2
        fi
    done < <(find "${places[@]}" -name '*.gguf')
    [[ $count -ge 1 && ( -z $SHARED || $count -ge 3 ) ]] || fail "only $count models came back whole"
}

@test "--type, and that the loss is told" {
    mkhk q.hk '{"metadata":[["k","string","v"]],"tensors":[
        {"name":"t","type":"q4_0","shape":[2,64],"data":{"zero":72}}]}'
    local type
    for type in f16 bf16 f32; do
        t hk-convert --type $type q.hk $type.safetensors
        assert_status 0
        [[ $(wc -l <<<"$stderr") -eq 1 ]] || fail 'one line for one loss'
        assert_err_has "hk-convert: $type.safetensors: lost: 1 tensor of type q4_0"
        t hk-inspect --tensors $type.safetensors
        assert_json 'v["tensors"][0]["type"]' $type
    done
    hk-convert q.hk default.safetensors 2>/dev/null
    assert_same default.safetensors f16.safetensors
    t_sh 'hk-convert --to safetensors q.hk - | cmp - f16.safetensors'
    assert_status 0
    assert_err 'hk-convert: standard output: lost: 1 tensor of type q4_0: decoded and rounded to f16'
}

@test "safetensors from and to a pipe" {
    hk-convert model.gguf x.safetensors
    hk-convert x.safetensors x.hk
    t_sh 'cat x.safetensors | hk-convert - a.hk && hk-convert --to safetensors model.gguf - | cat >b.safetensors &&
        cat model.gguf | hk-convert --to safetensors - - | cmp - x.safetensors && hk-convert - c.hk <x.safetensors'
    assert_status 0
    assert_err ''
    assert_same a.hk x.hk
    assert_same b.safetensors x.safetensors
    assert_same c.hk x.hk
}

# ---- model directories ----

@test "a model directory is replaced only with -f, as a whole, and only if it is one" {
    hk-convert model.gguf hf/
    chmod 750 hf
    ln -s hf link
    t hk-convert model.gguf hf
    assert_fails 2 'exists; use -f to replace it'
    hk-convert -f --split-size 100k model.gguf link
    [[ -L link && $(stat -c %a hf) == 750 ]]
    [[ $(find hf -name '*.safetensors' | wc -l) -eq 6 && -e hf/model.safetensors.index.json ]] || fail "$(ls hf)"
    cp -r hf before
    local foreign
    for foreign in README.md .git tokenizer.model model-1.safetensors; do
        echo mine >hf/$foreign
        t hk-convert -f model.gguf hf
        assert_fails 2 "holds '$foreign', which was not written here"
        rm hf/$foreign
    done
    mkdir hf/model.safetensors
    t hk-convert -f model.gguf hf
    assert_fails 2 "holds 'model.safetensors'"
    rmdir hf/model.safetensors
    diff -r hf before >&2
    mkdir empty other
    hk-convert -f model.gguf empty
    echo mine >other/tokenizer.json
    t hk-convert -f model.gguf other
    assert_fails 2 'no config.json'
    assert_files model.gguf hf link before empty other
}

@test "the input directory survives" {
    hk-convert model.gguf hf/
    cp -r hf before
    local out
    for out in hf hf/ hf/config.json hf/model.safetensors; do
        t hk-convert -f hf $out
        assert_fails 2 'the output is the input'
    done
    t hk-convert -f hf/model.safetensors hf
    assert_status 2
    assert_err_has 'the output is the input'
    t hk-convert hf hf/new.safetensors
    assert_fails 2 'the output is the input'
    diff -r hf before >&2
    hk-convert hf hf/new.gguf
    assert_files model.gguf hf before
}

@test "tensors beside a config.json are converted, and the directory named" {
    hk-convert model.gguf hf/
    t hk-convert hf/model.safetensors x.hk
    assert_status 0
    assert_err "hk-convert: hf/model.safetensors: only its tensors are converted: the model is its\
 directory, with the config.json"
    (cd hf && hk-convert model.safetensors ../y.hk 2>../err.txt)
    [[ $(<err.txt) == *'the model is its directory, with the config.json' ]]
    assert_same x.hk y.hk
    rm hf/config.json
    t hk-convert hf/model.safetensors z.hk
    assert_err ''
}

@test "a model directory: a failure or a signal leaves nothing, or what was there" {
    hk-convert model.gguf hf/
    cp -r hf before
    t_sh 'ulimit -f 100; exec hk-convert --to hf model.gguf new'
    assert_fails 2 'File too large'
    t_sh 'ulimit -f 100; exec hk-convert -f --to hf model.gguf hf'
    assert_fails 2 'File too large'
    diff -r hf before >&2
    assert_files model.gguf hf before
}
