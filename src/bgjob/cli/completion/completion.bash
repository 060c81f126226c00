# Completion of bgjob for bash: eval "$(bgjob completion bash)"
# What bgjob prints is inserted as it is, already quoted, and never evaluated.
_bgjob() {
    local kind='' line first
    COMPREPLY=()
    while IFS= read -r line; do
        if [ -z "$kind" ]; then kind=$line; else COMPREPLY+=("$line"); fi
    done < <(command bgjob completion --complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    case $kind in
        files) compopt -o default 2>/dev/null ;;
        directories) compopt -o dirnames 2>/dev/null ;;
        command\ *) _bgjob_command "${kind#command }" ;;
    esac
}

_bgjob_command() {
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif [ "$COMP_CWORD" -eq "$1" ]; then
        while IFS= read -r line; do
            printf -v line %q "$line"
            COMPREPLY+=("$line")
        done < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    else
        compopt -o default 2>/dev/null
    fi
}

# nosort: newest jobs first, where bash knows it
complete -o nosort -F _bgjob bgjob 2>/dev/null || complete -F _bgjob bgjob
