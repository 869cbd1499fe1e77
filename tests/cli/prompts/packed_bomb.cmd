# A hundred kilobytes that unpack to a hundred megabytes.
head -c 100000000 /dev/zero | gzip >bomb.jsonl.gz
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts bomb.jsonl.gz
# exits 2
