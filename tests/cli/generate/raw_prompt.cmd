kvcal generate "$SOURCE/datasets/demo/natural" --prompt 'red' --raw --max-new-tokens 1 --top 1 --json
