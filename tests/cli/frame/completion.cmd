cat >complete.bash <<"EOF"
. "$SOURCE/apps/completion/kvcal.bash"
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kvcal; echo "${COMPREPLY[*]}"; }
complete_words kvcal prom
complete_words kvcal --ver
complete_words kvcal prompts --prom
complete_words kvcal prompts --nothing-like-it
EOF
bash complete.bash
