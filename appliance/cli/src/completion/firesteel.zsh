#compdef firesteel
# Completion of firesteel for zsh. Load it with: source <(firesteel completions zsh)
# or write it to a file _firesteel in a folder of $fpath.
_firesteel() {
    local program="${(Q)words[1]}" line
    local -a lines open closed
    program="${program/#\~/$HOME}"
    lines=("${(@f)$("$program" __complete zsh -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ "${lines[1]}" == :files ]]; then
        _files
        return
    fi
    for line in $lines; do
        # A kind before its slash and a flag before its value go on without a space.
        if [[ "${line%%:*}" == *[/=] ]]; then
            open+=("$line")
        else
            closed+=("$line")
        fi
    done
    (( ${#closed} )) && _describe -V firesteel closed
    (( ${#open} )) && _describe -V firesteel open -S ''
}
if [[ "${zsh_eval_context[-1]}" == loadautofunc ]]; then
    _firesteel "$@"
else
    compdef _firesteel firesteel
fi
