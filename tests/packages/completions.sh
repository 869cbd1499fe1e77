#!/bin/sh
# completions.sh SHARE: the completions installed in SHARE, asked in each shell as by Tab; `kvcal` is in PATH.
set -eu
share=$1
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
: >prompts_file

# expect SHELL LINE WORD...: what was offered for LINE, in the file `offered`, are these words and no others.
expect() {
  shell=$1 line=$2
  shift 2
  if [ "$(sort -u offered | tr '\n' ' ')" != "$(printf '%s\n' "$@" | sort -u | tr '\n' ' ')" ]; then
    echo "completions: $shell offers '$(tr '\n' ' ' <offered)' for '$line', expected '$*'" >&2
    exit 1
  fi
}

in_bash() {
  bash -c '. "$1"; read -ra COMP_WORDS <<<"$2"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kvcal; printf "%s\n" "${COMPREPLY[@]}"' \
    - "$share/bash-completion/completions/kvcal" "$1" >offered
}

in_fish() {
  HOME=$PWD fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$share/fish/vendor_completions.d/kvcal.fish" "$1" |
    cut -f 1 >offered
}

# zsh completes only where there is a terminal: it is given one, with Tab pressed and the list of matches printed.
in_zsh() {
  HOME=$PWD zsh -f -c '
    zmodload zsh/zpty
    zpty z "zsh -f -i"
    zpty -w z "PS1= fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u; zstyle \":completion:*\" list-separator \"\""
    zpty -w z "compadd() { local -a found; builtin compadd -O found \"\$@\"; print -rl -- \$found >>offered; builtin compadd \"\$@\" }"
    zpty -w z "print ready >go"; while [[ ! -s go ]] { sleep .1 }
    zpty -n -w z "$2"$'\''\t'\''
    for i in {1..50}; do [[ -s offered ]] && break; sleep .1; done
    sleep .3; zpty -d z' - "$share/zsh/site-functions" "$1"
  rm -f go
}

for shell in bash fish zsh; do
  for case in 'kvcal prom:prompts' 'kvcal prompts --prom:--prompts' 'kvcal --vers:--version' 'kvcal prompts prompts_f:prompts_file'; do
    line=${case%%:*}
    : >offered
    "in_$shell" "$line"
    # bash itself offers files where a function of completion offers nothing.
    if [ $shell = bash ] && [ "${case#*:}" = prompts_file ]; then expect bash "$line" ''; else expect $shell "$line" "${case#*:}"; fi
  done
  echo "$shell: ok"
done
