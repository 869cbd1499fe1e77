# What few prompts cannot show: no next step after one, and shares up to 100 %. Standard input cannot be read twice.
P="$SOURCE/datasets/demo/prompts.jsonl"
calibrate() { kvcal calibrate "$SOURCE/datasets/demo/stressed" "$@"; }
for n in 1 2; do calibrate -p "$P" --max-prompts $n --force 2>/dev/null | grep -o '^not conv.*\|^new.* some site\|^next.*'; done
calibrate -p - --evaluate e.json -o other.json <"$P"; ls
