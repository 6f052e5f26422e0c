#!/bin/sh
# The form of the tree: sizes of files and functions, and nothing that ties it to one machine.
. tests/tap.sh

code() {
    tracked '*.c' '*.h'
}

# Tables may be long, and so may the public headers: they are the library's reference.
lengths() {
    code | grep -Ev '(^|/)((tables|grids?)[a-z0-9_]*|hkfmt|hkmodel)\.[ch]$' | xargs -r wc -l |
        awk '$2 != "total" && $1 >= 600 { print $2 ": " $1 " lines" }'
}

# A function's braces stand alone in the first column, which clang-format sees to.
functions() {
    code | xargs -r awk '
        FNR == 1 { open = 0 }
        /^\{$/ { open = FNR }
        /^\}$/ && open { if (FNR - open > 80) print FILENAME ":" open ": " FNR - open - 1 " lines"; open = 0 }'
}

unopened() {
    for file in $(code); do
        head -c 2 "$file" | grep -q '^/\*' || printf '%s\n' "$file"
    done
}

# The patterns are spelt so that they do not match themselves.
machine='/wor[k]/|/hom[e]/[a-z]|/roo[t]/|/User[s]/|/tm[p]/bash'
hosts='registry[.]npmjs|pypi[.]org|pythonhosted[.]org|crates[.]io|proxy[.]golang|deb[.]debian|rubygems[.]org'

none 'C files are under 600 lines' "$(lengths)"
none 'functions are at most 80 lines' "$(functions)"
none 'every C file opens with what it holds' "$(unopened)"
none 'GNUmakefile is under 250 lines' "$(awk 'END { if (NR >= 250) print NR " lines" }' GNUmakefile)"
none 'no line of a script is over 120 columns' "$(tracked '*.sh' '*.bash' scripts tests/run .ci GNUmakefile |
    xargs -r awk 'length > 120 { print FILENAME ":" FNR }')"
none 'no path of one machine' "$(tracked . | xargs -r -d '\n' grep -InE "$machine")"
none 'no registry host' "$(tracked . | xargs -r -d '\n' grep -InE "$hosts")"
none 'nothing left to do is left in a comment' \
    "$(tracked '*.c' '*.h' '*.sh' '*.bats' '*.bash' | xargs -r grep -nE '\b(TOD[O]|FIXM[E]|XX[X])\b')"
none 'no trailing blanks' "$(tracked '*.c' '*.h' '*.sh' '*.bats' '*.bash' 'man/*' '*.md' GNUmakefile scripts |
    xargs -r grep -nE '[ 	]+$')"
none 'no file of 2 MiB or more' "$(tracked . | xargs -r -d '\n' stat -c '%s %n' | awk '$1 >= 2097152')"
none 'the tree is under 20 MiB' "$(tracked . | xargs -r -d '\n' stat -c %s |
    awk '{ sum += $1 } END { if (sum >= 20971520) print sum " bytes" }')"
none 'scripts can be run' "$(for script in scripts/* tests/run .ci/run; do
    [ -x "$script" ] || echo "$script"
done)"

finish
