# Completion of hk's programs for fish, which loads it by a program's name. The programs say themselves what could come
# next.
function __hk_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l current $words[-1]
    set -l given (string replace -r '^~/' "$HOME/" -- $words[2..-1])
    for line in (command $words[1] --complete $given 2>/dev/null)
        switch $line
            case :models
                set -l paths (__fish_complete_path $current)
                string match -r '^.*(?:/|\.hk|\.gguf|\.safetensors|\.index\.json)(?:\t.*)?$' $paths
                or printf '%s\n' $paths
            case :files
                __fish_complete_path $current
            case :directories
                __fish_complete_directories $current
            case '*'
                echo $line
        end
    end
end

for program in hk hk-append hk-bench hk-convert hk-dequant hk-detokenize hk-diff hk-hardware-profile hk-hash hk-inspect \
        hk-log hk-merge hk-meta hk-perplexity hk-rollback hk-run hk-sign hk-tokenize hk-verify
    complete -c $program -f -a '(__hk_complete)'
end
