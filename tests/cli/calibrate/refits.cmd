# Calibrates further checkpoints with the same prompts, from the first layer that differs, to the bytes of a run of each alone.
demo=$SOURCE/datasets/demo
run() { kvcal calibrate "$1" --prompts p.jsonl -q -o "$2" --stats "$2.kvstats" --force; }
head -3 "$demo/prompts.jsonl" >p.jsonl
cp -rL "$demo/natural" head && chmod -R u+w head
run "$demo/natural" natural.json; run "$demo/stressed" stressed.json
# The last norm is behind all layers: the same scales, of other weights.
cat >change.py <<'END'
import json, sys
path, name = sys.argv[1:]
with open(path, "r+b") as file:
    length = int.from_bytes(file.read(8), "little")
    begin, end = json.loads(file.read(length))[name]["data_offsets"]
    file.seek(8 + length + begin)
    content = file.read(end - begin)
    file.seek(8 + length + begin)
    file.write(content[-2:] + content[:-2])
END
python3 change.py head/model.safetensors model.norm.weight && run head head.json
mkfifo refits results
"$KVCAL" calibrate "$demo/natural" --prompts p.jsonl --refits refits --json -q -o s.json --stats s.kvstats >results &
exec 4<results 3>refits
result() {
  while IFS= read -r line <&4 && [ "$line" != '}' ]; do echo "$line"; done | grep -o 'layers_kept.*[0-9]'
  cmp s.json "$1.json" && cmp s.kvstats "$1.json.kvstats" && echo "as $1"
}
result natural
for next in natural stressed natural head; do
  case $next in head) echo head >&3 ;; *) echo "$demo/$next" >&3 ;; esac
  result $next
done
exec 3>&-; wait $!; echo "exit $?"
echo '--- a list in a file, prompts from a pipe; a folder that is none ends it'
printf '%s\n\nnowhere\n' "$demo/stressed" >list
kvcal calibrate "$demo/natural" --prompts - --refits list -q -o t.json <p.jsonl; echo "exit $?"; cmp t.json stressed.json
echo '--- an output that is there already'
kvcal calibrate "$demo/natural" --prompts p.jsonl --refits list -q -o t.json; echo "exit $?"
echo '--- not with'
for option in --if-changed --dry-run --resume --mpi '--shard 1/2 --stats x' '--until-stable 1' '--evaluate e.json' --check '-o -'; do
  kvcal calibrate "$demo/natural" --prompts p.jsonl --refits list $option 2>&1 | grep error
done
kvcal calibrate "$demo/natural" --prompts - --refits - -o u.json </dev/null 2>&1 | grep error
kvcal calibrate "$demo/natural" --prompts p.jsonl --refits missing -o u.json 2>&1 | grep error
ls
