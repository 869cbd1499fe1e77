# 340 bytes that ask for ten million sequences.
for i in 1 2 3 4 5 6 7 8 9 10; do echo '{"text": "a'$i'", "weight": 1000000}'; done >p.jsonl
(ulimit -v 1000000; kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts p.jsonl --dry-run)
# exits 2
