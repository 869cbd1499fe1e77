set -- "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q
kvcal evaluate "$@" --min-agreement 97 || echo exit $?
kvcal evaluate "$@" --generate --min-correct -0.1 || echo exit $?
kvcal evaluate "$@" --max-kl -1 || echo exit $?
kvcal evaluate "$@" --until-decided -1 || echo exit $?
kvcal evaluate "$@" --until-decided 0.02 --min-agreement 0.98 || echo exit $?
