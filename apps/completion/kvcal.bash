# Completion of kvcal for bash. Verbs and options are read from the program's own --help, so that they are never out of
# date; file names complete everything else.
_kvcal() {
  local current=${COMP_WORDS[COMP_CWORD]} words
  COMPREPLY=()
  if ((COMP_CWORD == 1)) && [[ $current != -* ]]; then
    words=$("${COMP_WORDS[0]}" --help 2>/dev/null | awk '/^[^ ]/ { on = /^Verbs:/ } on && /^  [a-z]/ { print $1 }')
  elif [[ $current == -* ]]; then
    local verb=()
    ((COMP_CWORD > 1)) && verb=("${COMP_WORDS[1]}")
    words=$("${COMP_WORDS[0]}" "${verb[@]}" --help-all 2>/dev/null | grep -oE '^  (-[A-Za-z],)?--[a-z0-9-]+' | grep -oE -- '--.*')
  fi
  local word
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$words" -- "$current")
}
complete -o bashdefault -o default -F _kvcal kvcal
