# shellcheck shell=bash
# Completion of hk's programs for bash; bash-completion loads it by a program's name. The programs say themselves what
# could come next.
_hk() {
    local words=() i line cur
    for ((i = 1; i <= COMP_CWORD; i++)); do # bash makes three words of --to=hk
        if [[ ${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == = ]] && [[ ${#words[@]} -gt 0 ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    cur=${COMP_WORDS[COMP_CWORD]}
    [[ $cur != = ]] || cur=''
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :models)
            compopt -o filenames
            mapfile -t COMPREPLY < <(
                compgen -d -- "$cur"
                compgen -f -- "$cur" | grep -E '\.(hk|gguf|safetensors|index\.json)$'
            )
            [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            ;;
        :files | :directories)
            compopt -o filenames
            line=${line:1:1}
            mapfile -t COMPREPLY < <(compgen "-$line" -- "$cur")
            ;;
        *)
            line=${line%%$'\t'*}
            [[ ${words[-1]} != --*=* ]] || line=${line#*=}
            printf -v line %q "$line"
            COMPREPLY+=("$line")
            ;;
        esac
    done < <("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null)
}

complete -F _hk hk hk-{append,bench,convert,dequant,detokenize,diff,hardware-profile,hash,inspect,log,merge,meta}
complete -F _hk hk-{perplexity,rollback,run,sign,tokenize,verify}
