# Completion of firesteel for fish. Load it with: firesteel completions fish | source
function __firesteel_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token --cut-at-cursor)
    set -l program (string replace --regex '^~' $HOME -- $words[1])
    set -l lines ($program __complete fish -- $words 2>/dev/null)
    if test "$lines[1]" = :files
        __fish_complete_path (commandline --current-token --cut-at-cursor)
        return
    end
    string join \n -- $lines
end
complete --command firesteel --keep-order --no-files --arguments '(__firesteel_complete)'
