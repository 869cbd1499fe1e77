# As calibrate does: without a limit of its own a prompt has that of the model.
awk 'BEGIN { printf "{\"text\": \""; for (i = 0; i < 30000; ++i) printf "a b "; print "\"}" }' >long.jsonl
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts long.jsonl --max-length 0 2>/dev/null | tail -n 2
