for i in 1 2 3 4 5; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i]}"; done >prompts.jsonl
ln -s "$SOURCE/tests/arch/golden/qwen3" model
kvcal launch model --prompts prompts.jsonl --print k8s --parts 2 --image registry.example/kvcal:1 --claim "it's"
