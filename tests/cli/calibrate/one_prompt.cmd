echo '{"text": "red blue"}' >p.jsonl
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts p.jsonl --passes 1 --no-sanity | grep converged
