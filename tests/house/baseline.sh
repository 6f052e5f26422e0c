#!/bin/sh
# What is not a level of kernels runs on every processor of the architecture: no instruction beyond its base ABI
# is in the objects of the default build. A level is one symbol.
. tests/tap.sh

if [ -n "$SAN" ] || [ -n "${CPU:-}" ]; then
    echo '1..0 # SKIP only the default build is for every processor'
    exit 0
fi

# Mnemonics beyond SSE2. gcc writes "rep bsf" for counts of zeros, which is tzcnt to a disassembler; what they give
# is the same where it is used.
case $(uname -m) in
x86_64)
    levels=kernels/x86
    beyond='v[a-z]|addsubp|h(add|sub)p|lddqu|mov(dd|sh|sl)dup|fisttp|pabs|palignr|ph(add|sub)|pmaddubsw|pmulhrsw'
    beyond="$beyond|pshufb|psign|p?blend|dpp[sd]|extractps|insertps|movntdqa|mpsadbw|packusdw|pcmpeqq|pextr[bdq]"
    beyond="$beyond|pinsr[bdq]|phminpos|pm(ax|in)(s[bd]|u[dw])|pmov[sz]x|pmuldq|pmulld|ptest|round[ps][sd]|crc32|popcnt"
    beyond="$beyond|pcmp[ei]str|pcmpgtq|andn |bextr|bls[ir]|blsmsk|lzcnt|bzhi|pdep|pext |mulx|(ro|sa|sh)[lr]x|adcx|adox"
    beyond="$beyond|aes|pclmul|sha(1|256)|movbe|rdrand|rdseed|rdfsbase|rdgsbase|tile|tdp|xsave"
    ;;
aarch64)
    levels=kernels/arm
    beyond='[us]dot|(us|su)dot|[us]mmla|usmmla|bf(dot|mmla|mlal)|fmlal|fmlsl|sqrdml|fcmla|fcadd|cas|swp|ld(add|clr|set)'
    ;;
*)
    echo '1..0 # SKIP no list of instructions for this architecture'
    exit 0
    ;;
esac

# found FILE...: a line "OBJECT MNEMONIC" for each such instruction.
found() {
    objdump -d --no-show-raw-insn "$@" | awk -F '\t' -v beyond="^($beyond)" '
        / file format / { object = $0; sub(/:.*/, "", object); sub(/.*\//, "", object) }
        NF > 1 {
            code = $2 " "
            while (sub(/^(lock|rep|repz|repnz|notrack|bnd|data16|cs|ds) /, "", code)) { }
            if (code !~ beyond || code ~ /^ver[rw] /)
                next
            sub(/ .*/, "", code)
            if (!seen[object, code]++)
                print object, code
        }'
}

own=$(find $levels -name '*.c' -exec basename {} .c \; 2>/dev/null)
common=$(printf '%s\n' "$own" | sed 's/^/^/; s/$/\\.o /')
for archive in libhkfmt libhkengine libhktool libhkkern; do
    none "$archive is for every processor" "$(found "$B/$archive.a" | grep -v "$common")"
done
none 'so are the programs' "$(found "$B"/tools/*.o)"

for level in $own; do
    object=$B/$levels/$level.o
    same "$level is one symbol" "hkk_$level" "$(nm -g --defined-only "$object" | awk '{ print $3 }' | paste -sd' ')"
done
# Otherwise there is nothing that the test above could find.
for level in $own; do
    [ "$level" = neon ] || works "$level would not be" test -n "$(found "$B/$levels/$level.o")"
done

finish
