# A later minor version may have members that this program does not know; 1.4 may not.
kvcal calibrate "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 8 -q -o run.json --stats run.kvstats
sed -e 's/"version": "1.4"/"version": "1.5"/' -e 's/"passes": 2,/"passes": 2, "rotations": 3,/' run.json >later.json
kvcal validate later.json --strict
sed 's/"passes": 2,/"passes": 2, "pases": 3,/' run.json >unknown.json
kvcal validate unknown.json
# exits 1
