#!/bin/sh
# The completions of bash, zsh and fish, sourced and asked in each shell: the options of every program, files, and names
# from a model. A shell that is not here is skipped.
. tests/tap.sh

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
case $B in /*) bin=$B/bin ;; *) bin=$PWD/$B/bin ;; esac
scripts=$PWD/completions
PATH=$bin:$PATH
export PATH
hk-convert -q tests/fixtures/models/stories260K-f16.gguf "$work/m.hk" &&
    hk-append -q --lora tests/fixtures/adapter --name timmy "$work/m.hk" >/dev/null || exit 2
cd "$work" || exit 2
mkdir folder
touch other.txt
cp m.hk 'folder/a model.hk'
HOME=$work/folder
export HOME

programs=$(cd "$bin" && printf '%s\n' hk hk-* | sort)

# ask SHELL WORD...: what the last word can become, one a line, without what it means.
ask() {
    shell=$1
    shift
    case $shell in
    bash)
        # shellcheck disable=SC2016 # for bash to expand
        bash --norc -c 'compopt() { :; }; . "$0"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _hk
            [[ ${#COMPREPLY[@]} -eq 0 ]] || printf "%s\n" "${COMPREPLY[@]}"' "$scripts/hk.bash" "$@"
        ;;
    zsh)
        # shellcheck disable=SC2016 # for zsh to expand
        zsh -f -c 'compadd() { print -rl -- $texts }
            _files() { case $1 in (-g) print -rl -- ${~2} *(/);; (-/) print -rl -- *(/);; (*) print -rl -- *;; esac }
            words=("$@"); CURRENT=$#; ask() { . "$1" }; ask "$0"' "$scripts/_hk" "$@"
        ;;
    fish)
        line=$1
        shift
        for word; do line="$line $word"; done
        fish --no-config -c "source $scripts/hk.fish; complete -C \"$line\"" | cut -f 1 | sed 's:/$::'
        ;;
    esac 2>&1 | LC_ALL=C sort
}

for shell in bash zsh fish; do
    if ! command -v $shell >/dev/null; then
        skip "$shell" "SKIPPED: no $shell"
        continue
    fi
    for program in $programs; do
        same "$shell: the options of $program are those of its help" \
            "$("$program" --help | grep -oE '^  (-.|  ),? +--[^ ]+' | grep -oE -e '--[^ ]+' | LC_ALL=C sort)" \
            "$(ask $shell "$program" --)"
    done
    same "$shell: models, and folders" "$(printf 'folder\nm.hk')" "$(ask $shell hk-inspect '')"
    same "$shell: files, where they are no models" "$(printf 'folder\nm.hk\nother.txt')" \
        "$(ask $shell hk-convert m.hk '')"
    same "$shell: directories" folder "$(ask $shell hk-dequant --all '')"
    same "$shell: adapters of the file" timmy "$(ask $shell hk-run m.hk --adapter '')"
    same "$shell: of a file behind an option" timmy "$(ask $shell hk-log --table m.hk -x ti)"
    same "$shell: of a file whose name is escaped" timmy "$(ask $shell hk-run 'folder/a\ model.hk' --adapter '')"
    same "$shell: or quoted" timmy "$(ask $shell hk-run "'folder/a model.hk'" --adapter '')"
    # shellcheck disable=SC2088 # for the completion to expand
    same "$shell: or below ~" timmy "$(ask $shell hk-run '~/a\ model.hk' --adapter '')"
    same "$shell: keys" "$(printf 'general.architecture\ngeneral.author')" "$(ask $shell hk-meta get m.hk general.a)"
    same "$shell: tensors" blk.0.attn_q.weight "$(ask $shell hk-dequant m.hk blk.0.attn_q)"
    same "$shell: commands" "$(printf 'delete\nexport\nget\nimport\nlist\nset')" "$(ask $shell hk-meta '')"
    same "$shell: values" "$(printf 'f32\nq8')" "$(ask $shell hk-run --activations '')"
    same "$shell: programs" "$(printf 'merge\nmeta')" "$(ask $shell hk me)"
    same "$shell: what follows a program of hk" --adapter "$(ask $shell hk run --ada)"
    none "$shell: nothing for a prompt" "$(ask $shell hk-run m.hk '')"
done
same 'bash: the value of --name=value' q8 "$(ask bash hk-run --activations = q)"
hk-meta set m.hk a:b:c x || exit 2
same 'bash: what follows a colon, which is a word for bash' b:c "$(ask bash hk-meta get m.hk a : b)"
# shellcheck disable=SC2016 # for nobody to expand
ask bash hk-run '$(touch ran)`touch ran`' --adapter '' >/dev/null
works 'bash: nothing that is typed is run' test ! -e ran

# typed WORDS: the line that an interactive zsh, with its own completion system, makes of them and a tab.
typed() {
    # shellcheck disable=SC2016 # for zsh to expand
    timeout 60 zsh -f -c 'zmodload zsh/zpty && zpty z zsh -f -i && { zpty -r -m z out "*[%#] *"
        zpty -w z "PS1=; unset zle_bracketed_paste; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D
            preexec() { print -r \"LINE<\$1>\"; exit }; print RE\"\"ADY"
        zpty -r -m z out "*READY*" && zpty -w z "$2"$'\''\t'\'' && zpty -r -m z out "*LINE<*>*" && print -r "$out" }' \
        zsh "$scripts" "$1" | sed -n 's/.*LINE<\([^>]*[^ >]\) *>.*/\1/p'
}
if command -v zsh >/dev/null; then
    same 'an interactive zsh completes options' 'hk-inspect --appendix' "$(typed 'hk-inspect --app')"
    same 'files' 'hk-inspect m.hk' "$(typed 'hk-inspect m')"
    same 'and adapters' 'hk-run m.hk --adapter timmy' "$(typed 'hk-run m.hk --adapter t')"
fi
none 'no name that would be taken for two lines' "$(hk-meta --complete get m.hk 'bad')"
finish
