#compdef bgjob
# Completion of bgjob for zsh: eval "$(bgjob completion zsh)", after compinit
# compadd quotes what it inserts; nothing that bgjob prints is evaluated.
_bgjob() {
    local kind line
    local -i wide
    local -a typed found about shown
    typed=("${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}")
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            found+=("${line%%$'\t'*}") about+=("${line#*$'\t'}")
            (( $#found[-1] > wide )) && wide=$#found[-1]
        fi
    done < <(command bgjob completion --complete zsh "$typed[@]" 2>/dev/null)
    for (( line = 1; line <= $#found; line++ )); do
        shown+=("${(mr:wide:)found[line]}${about[line]:+  -- $about[line]}")
    done
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
