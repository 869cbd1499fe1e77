# Names that a shell would read otherwise are quoted. Nothing is written.
for i in 1 2 3 4 5; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i]}"; done >prompts.jsonl
ln -s "$SOURCE/tests/arch/golden/qwen3" "a model"
kvcal launch "a model" --prompts prompts.jsonl --max-length 64 --print slurm --parts 2 --threads 4 >job.sh && bash -n job.sh && cat job.sh
ls
