# Links in circles, names with spaces, other alphabets, line ends; names that are too long; files where folders belong.
. "$(dirname "$0")/common.sh"

prompts=$source/datasets/demo/prompts.jsonl

ln -s loop1 loop2 && ln -s loop2 loop1
fails_with 2 "loop1" $kvcal inspect loop1
fails_with 2 "loop1" $kvcal calibrate "$demo" --prompts loop1 -q -o s.json
fails_with 2 "loop1" $kvcal calibrate "$demo" --prompts "$prompts" --max-prompts 1 -q -o loop1
fails_with 2 "loop1" $kvcal validate loop1
fails_with 2 "loop1" $kvcal solve loop1 -o s.json
small_model linked && rm linked/model.safetensors && ln -s model.safetensors linked/model.safetensors
fails_with 2 "linked" $kvcal calibrate linked --prompts "$prompts" -q -o s.json

long=$(printf '%0300d' 0)
fails_with 2 "file name too long" $kvcal inspect "$long"
fails_with 2 "file name too long" $kvcal calibrate "$demo" --prompts "$prompts" --max-prompts 1 -q -o "$long"
deep=$(printf 'd/%.0s' $(seq 1 2500))
fails_with 2 "file name too long" $kvcal validate "${deep}s.json"

fails_with 2 "has no config.json" $kvcal validate "$scratch"
fails_with 2 "is a part of a checkpoint, expected a model folder" $kvcal inspect "$demo/model.safetensors"
fails_with 2 "is not a regular file" $kvcal validate /dev/null
fails_with 2 "no such model folder" $kvcal inspect ""

# MODEL may be the folder's config.json.
$kvcal inspect "$demo/config.json" --json >from_file.json || complain "config.json as MODEL"
$kvcal inspect "$demo" --json >from_folder.json && cmp -s from_file.json from_folder.json ||
  complain "config.json as MODEL tells something else than its folder"

for name in 'with space' 'größe-模型-🙂' "line
end" '-o' "quote'\"\$(x)\`y\`"; do
  small_model "./$name"
  cp "$prompts" "./$name/p.jsonl"
  (cd "./$name" && $kvcal calibrate . --prompts p.jsonl --max-prompts 1 -q -o ./s.json --stats "./$name.kvstats") ||
    complain "inside a folder of the name '$name'"
  $kvcal calibrate "./$name" --prompts "./$name/p.jsonl" --max-prompts 1 -q --force -o "./$name/s.json" ||
    complain "with a folder of the name '$name'"
  $kvcal validate "./$name/s.json" >/dev/null || complain "validate in '$name'"
  fails_with 2 "cannot open" $kvcal validate "./$name/missing"
done
finish
