# The model's own folder, and back to the same bytes.
mkdir model && cp "$SOURCE"/datasets/demo/natural/* model
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
(cd model && sha256sum *) >before
kvcal export s.json --model model --in-place --json | grep in_place
ls model | grep kv
kvcal export s.json --model model --in-place || echo exit $?
kvcal export --undo --model model
(cd model && sha256sum *) | cmp - before && echo the same
kvcal export --undo --model model || echo exit $?
