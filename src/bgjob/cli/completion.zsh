#compdef bgjob
# Completion of bgjob for zsh: eval "$(bgjob completion zsh)", after compinit
# compadd quotes what it inserts; nothing that bgjob prints is evaluated.
_bgjob() {
    local kind line word about
    local -a typed found shown
    typed=("${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}")
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            word=${line%%$'\t'*} about=${line#*$'\t'}
            found+=("$word")
            shown+=("$word${about:+  -- $about}")
        fi
    done < <(command bgjob completion --complete zsh "$typed[@]" 2>/dev/null)
    case $kind in
        files) [[ $PREFIX == --*=* ]] && compset -P '*='; _files ;;
        directories) [[ $PREFIX == --*=* ]] && compset -P '*='; _files -/ ;;
        command\ *) shift ${kind#command } words; (( CURRENT -= ${kind#command } )); _normal ;;
        *) (( $#found )) && compadd -l -V bgjob -d shown -a found ;;
    esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _bgjob "$@"
else
    compdef _bgjob bgjob
fi
