# shellcheck shell=bash
# Completion of hk's programs for bash; bash-completion loads it by a program's name. The programs say themselves what
# could come next.

# _hk_unquote WORD: into REPLY, WORD as the shell would give it to a program. Nothing in it is run.
_hk_unquote() {
    local text=$1 quote='' c i
    REPLY=''
    # shellcheck disable=SC2088 # as it was typed
    [[ $text != '~/'* ]] || REPLY=$HOME text=${text:1}
    for ((i = 0; i < ${#text}; i++)); do
        c=${text:i:1}
        if [[ $c == "$quote" ]]; then
            quote=''
        elif [[ -z $quote && ($c == \' || $c == \") ]]; then
            quote=$c
        elif [[ $c == \\ && $quote != \' ]]; then
            i=$((i + 1))
            REPLY+=${text:i:1}
        else
            REPLY+=$c
        fi
    done
}

_hk() {
    local words=() i line cur path REPLY
    for ((i = 1; i <= COMP_CWORD; i++)); do # bash makes three words of --to=hk, and of a:b
        if [[ ${COMP_WORDS[i]} == [=:] || ${COMP_WORDS[i - 1]} == [=:] ]] && [[ ${#words[@]} -gt 0 ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    cur=${COMP_WORDS[COMP_CWORD]}
    [[ $cur != [=:] ]] || cur=''
    path=${words[-1]}
    [[ $path != --*=* ]] || path=${path#*=}
    # A path keeps its ~, which compgen understands.
    [[ $path == '~'* ]] || { _hk_unquote "$path" && path=$REPLY; }
    for i in "${!words[@]}"; do
        _hk_unquote "${words[i]}"
        words[i]=$REPLY
    done
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :models)
            compopt -o filenames
            mapfile -t COMPREPLY < <(
                compgen -d -- "$path"
                compgen -f -- "$path" | grep -E '\.(hk|gguf|safetensors|index\.json)$'
            )
            [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- "$path")
            ;;
        :files | :directories)
            compopt -o filenames
            line=${line:1:1}
            mapfile -t COMPREPLY < <(compgen "-$line" -- "$path")
            ;;
        *)
            line=${line%%$'\t'*}
            [[ ${words[-1]} != --*=* ]] || line=${line#*=}
            printf -v line %q "$line"
            COMPREPLY+=("$line")
            ;;
        esac
    done < <("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null)
    # What bash took for a word of its own stays on the line.
    [[ $path != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${path%"$cur"}"}")
}

complete -F _hk hk hk-{append,bench,convert,dequant,detokenize,diff,hardware-profile,hash,inspect,log,merge,meta}
complete -F _hk hk-{perplexity,rollback,run,sign,tokenize,verify}
