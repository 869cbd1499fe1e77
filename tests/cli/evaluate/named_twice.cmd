set -- "$SOURCE/datasets/demo/natural"
kvcal evaluate "$@" --formats int8,nvfp4,int8 || echo exit $?
kvcal evaluate "$@" --state-dtype bf16 --state-dtype bf16 || echo exit $?
kvcal evaluate "$@" --choose nvfp4,nvfp4 --max-kl 1 || echo exit $?
