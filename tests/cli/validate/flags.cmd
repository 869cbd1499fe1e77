# Flags that do not go together, and servers that nobody knows.
for flags in "--scales a.json" "--stats a.kvstats"; do kvcal validate "$SOURCE/schemas/README.md" $flags || echo exit $?; done
kvcal validate "$SOURCE/datasets/demo/natural" --model "$SOURCE/datasets/demo/natural" || echo exit $?
kvcal validate "$SOURCE/datasets/demo/natural" --scales a.json --stats b.kvstats || echo exit $?
kvcal validate "$SOURCE/datasets/demo/natural" --server vlm || echo exit $?
kvcal validate "$SOURCE/datasets/demo/natural" --server vllm@new || echo exit $?
kvcal validate "$SOURCE/datasets/demo/natural" --scales nowhere.json || echo exit $?
kvcal validate . || echo exit $?
