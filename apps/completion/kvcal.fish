# Completion of kvcal for fish. Verbs and options are read from the program's own --help, so that they are never out of date.
function __kvcal_verbs
    set -l words (commandline -opc)
    $words[1] --help 2>/dev/null | sed -n '/^Verbs:/,/^[^ ]/ s/^  \([a-z][a-z]*\) */\1\t/p'
end

function __kvcal_options
    set -l words (commandline -opc)
    $words[1] $words[2] --help-all 2>/dev/null | grep -oE '^  (-[A-Za-z],)?--[a-z0-9-]+' | grep -oE -- '--.*'
end

function __kvcal_at_verb
    test (count (commandline -opc)) -eq 1
end

complete -c kvcal -n __kvcal_at_verb -f -a '(__kvcal_verbs)'
complete -c kvcal -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__kvcal_options)'
