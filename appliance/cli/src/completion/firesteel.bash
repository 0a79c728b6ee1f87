# Completion of firesteel for bash. Load it with: source <(firesteel completions bash)
_firesteel() {
    local program="${1/#\~/$HOME}" line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            compopt -o default 2>/dev/null
            COMPREPLY=()
            return
        fi
        COMPREPLY+=("$line")
    done < <("$program" __complete bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    # A kind before its slash and a flag before its value go on without a space.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _firesteel firesteel 2>/dev/null || complete -F _firesteel firesteel
