echo '{"text": "The moon rose. A fox crossed the road. Rain fell on the roof."}' >story.jsonl
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts story.jsonl --needles 230 --needle-depths 0,50
