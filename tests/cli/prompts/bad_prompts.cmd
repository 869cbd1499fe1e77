cat >p.jsonl <<"END"
{"id": "good", "text": "red"}
{"id": "misspelt", "texts": "red"}
{"id": "beyond", "input_ids": [1, 99999999]}
{"id": "bare"}
END
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts p.jsonl --json
# exits 1
