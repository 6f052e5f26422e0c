# What every program does alike: help, mistyped options, and its input from a file, a pipe, a FIFO.
load common.bash

setup() {
    common_setup
    make_models
    cp model.hk m.hk
    hk-append -q --lora "$FIX/adapter" --name timmy m.hk >/dev/null
    openssl genpkey -algorithm ed25519 -out key.pem 2>/dev/null
    openssl pkey -in key.pem -pubout -out key.pub
    hk-sign -q --key key.pem m.hk
    printf 'Once upon a time, there was a little girl' >text
    echo '{"passed":1}' >eval.json
}

programs() { find "$BIN" -name 'hk*' -printf '%f\n' | sort; }

# A command for each program that reads a model, which M stands for.
commands() {
    cat <<'END'
hk-append --eval eval.json --name e M
hk-bench --prefill 2 --decode 1 --reps 1 M
hk-convert M out.gguf --no-history -f
hk-dequant M output_norm.weight
hk-detokenize M 403 407
hk-diff M model.hk
hk-hash M
hk-inspect M
hk-log M
hk-merge M out.hk -f
hk-meta list M
hk-perplexity M <text
hk-rollback M 1
hk-run -n 5 M Once
hk-sign --key key.pem -o - M
hk-tokenize M Once
hk-verify --key key.pub --signature m.hk.sig M
END
}

@test "the list below has every program that reads a model" {
    for p in $(programs); do
        case $p in hk | hk-hardware-profile) continue ;; esac
        commands | grep -q "^$p " || fail "$p is missing"
    done
}

@test "-h prints the help, as --help does" {
    for p in $(programs); do
        t "$p" -h
        assert_status 0
        assert_out_like "^usage: $p "
        assert_err ''
        help=$output
        t "$p" --help
        assert_out "$help"
    done
}

@test "--version is one line" {
    for p in $(programs); do
        t "$p" --version
        assert_status 0
        assert_out_like "^$p [0-9]+\\.[0-9]+\\.[0-9]+$"
        assert_err ''
    done
}

@test "an option that is mistyped names the one that was meant; no operand is one line" {
    for p in $(programs); do
        t "$p" --quie
        assert_fails 2 "$p: unknown option --quie: did you mean --quiet?"
        t "$p" --helpp
        assert_fails 2 "did you mean --help?"
        [[ $p == hk-hardware-profile ]] && continue
        t_sh "$p </dev/null"
        assert_fails 2 "$p: need "
    done
}

# What differs between two runs that do the same: names of the file, times.
steady() {
    sed -E 's#"(file|model|a)":"[^"]*"#"\1":"M"#g; s#"(load_ms|first_token_ms|tps|min|max|private|mapped|peak)":[0-9.e+-]+#"\1":0#g' |
        sed -E 's#^([0-9a-f]{64})  .*#\1  M#; s#/dev/fd/[0-9]+|/proc/[^: ]*|fifo#M#g'
}

@test "input from a file, as -, from /dev/stdin, a FIFO and a process substitution is the same" {
    while read -r line; do
        case $line in hk-append* | hk-rollback* | hk-sign*) continue ;; esac
        rm -f out.*
        bash -c "${line//M/m.hk}" 2>&1 | steady >want
        [[ ! -e out.gguf ]] || mv out.gguf want.out
        [[ ! -e out.hk ]] || mv out.hk want.out
        for way in '-' /dev/stdin fifo '<(cat m.hk)' '<(zcat m.hk.gz)'; do
            case $line:$way in hk-perplexity*:- | hk-perplexity*:/dev/stdin) continue ;; esac
            rm -f fifo
            gzip -k -f m.hk
            mkfifo fifo
            case $way in
            - | /dev/stdin) run="cat m.hk | ${line//M/$way}" ;;
            fifo) run="{ cat m.hk >fifo & } ; ${line//M/fifo}" ;;
            *) run=${line//M/"$way"} ;;
            esac
            timeout 20 bash -c "$run" 2>&1 | steady >got
            cmp want got >&2 || fail "$run: $(head -c 600 got)"
            for out in out.gguf out.hk; do
                [[ ! -e $out ]] || { cmp want.out $out >&2 && rm $out || fail "$run: another file"; }
            done
        done
        rm -f want.out
    done < <(commands)
}

@test "keys, signatures, lists, payloads, metadata and bases are read from pipes and FIFOs too" {
    hk-sign -q -f --key key.pem m.hk
    hk-hash m.hk >list
    hk-meta export m.hk >metadata
    mkfifo fifo
    cat >inputs <<'END'
key.pub|hk-verify --key F --signature m.hk.sig m.hk
m.hk.sig|hk-verify --key key.pub --signature F m.hk
key.pem|hk-sign --key F -o - m.hk
list|hk-hash --check F | tail -1
metadata|cp m.hk c.hk && hk-meta import c.hk F && cmp c.hk m.hk && echo same
eval.json|cp m.hk c.hk && SOURCE_DATE_EPOCH=1 hk-append --eval F --name n c.hk && sha256sum <c.hk
model.hk|hk-diff F m.hk
model.hk|hk-convert -f --base F "$FIX/adapter" a.gguf && sha256sum <a.gguf
END
    while IFS='|' read -r file line; do
        bash -c "${line//F /"$file" }" >want 2>&1 || :
        [[ -s want ]] || fail "$line: no output"
        for way in "<(cat $file)" fifo - /dev/stdin; do
            run="${line//F /$way }"
            [[ $way != fifo ]] || run="{ cat $file >fifo & } ; $run"
            timeout 20 bash -c "$run" <"$file" >got 2>&1 || :
            cmp <(steady <want) <(steady <got) >&2 || fail "$run: $(head -c 600 got)"
        done
    done <inputs
}

@test "what is changed in place is a file: everything else is refused by name, and left alone" {
    cp m.hk before
    while read -r line; do
        case $line in hk-append* | hk-rollback*) ;; *) continue ;; esac
        for way in - /dev/stdin /dev/fd/0 fifo /dev/null; do
            rm -f fifo && mkfifo fifo
            t_sh "timeout 20 ${line//M/$way} <m.hk"
            assert_status 2
            [[ $(wc -l <<<"$stderr") -eq 1 ]] || fail 'one line'
        done
    done < <(commands; printf 'hk-%s\n' 'append --deactivate timmy M' 'rollback M 0' | sed 's/hk-append/hk-append/')
    for line in 'hk-meta set M k 1' 'hk-meta delete M general.name' 'hk-meta import M'; do
        for way in - /dev/stdin fifo; do
            t_sh "timeout 20 ${line//M/$way} <m.hk"
            assert_status 2
        done
    done
    cmp m.hk before
}

@test "standard input serves once" {
    for line in 'hk-diff - -' 'hk-diff - /dev/stdin' 'hk-inspect - -' 'hk-append --eval - --name e -' 'hk-convert --base - - out.hk' \
        'hk-verify --key - -'; do
        t_sh "timeout 20 $line <m.hk"
        assert_status 2
        [[ $(wc -l <<<"$stderr") -eq 1 ]] || fail 'one line'
    done
}
