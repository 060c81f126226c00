# Completion of bgjob for fish: bgjob completion fish | source
# fish quotes what it inserts; nothing that bgjob prints is evaluated.
function __bgjob_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l found (command bgjob completion --complete fish $before $current 2>/dev/null)
    switch "$found[1]"
        case files
            __fish_complete_path $current
        case directories
            __fish_complete_directories $current
        case 'command *'
            set -l at (math (string replace 'command ' '' -- $found[1]) + 1)
            complete -C (string join ' ' -- (string escape -- $before[$at..-1]) $current)
        case '*'
            printf '%s\n' $found[2..-1]
    end
end

complete -c bgjob -f -k -a '(__bgjob_complete)'
