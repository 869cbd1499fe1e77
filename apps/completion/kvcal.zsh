#compdef kvcal
# Completion of kvcal for zsh. Verbs and options are read from the program's own --help, so that they are never out of date.
local program=${~words[1]}
if [[ $PREFIX == -* ]]; then
  local -a verb options
  (( CURRENT > 2 )) && verb=(${words[2]})
  options=(${(f)"$($program $verb --help-all 2>/dev/null | grep -oE '^  (-[A-Za-z],)?--[a-z0-9-]+' | grep -oE -- '--.*')"})
  compadd -a options
elif (( CURRENT == 2 )); then
  local -a verbs
  verbs=(${(f)"$($program --help 2>/dev/null | sed -n '/^Verbs:/,/^[^ ]/ s/^  \([a-z][a-z]*\) */\1:/p')"})
  _describe verb verbs
else
  _files
fi
