# The line that is printed for a record of a known set makes prompts of it, of a list of them too. Without jq there is none to try.
command -v jq >/dev/null || jq() { cat wanted; }
cat >sets <<"END"
{"chosen": "\n\nHuman: red\n\nAssistant: blue\nis", "rejected": "\n\nHuman: red"}
{"question": "red", "context": "blue", "answers": {"text": ["a"]}}
{"question": "red", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "A"}
{"question": "red", "choices": ["a", "b"], "answer": 0}
{"question": "red", "options": ["a", "b"], "answer": "A"}
{"input": "red", "output": "blue"}
{"features": [], "rows": [{"row_idx": 0, "row": {"text": "red"}}]}
{"url": "x", "if": "red blue"}
END
cat >wants <<"END"
{"conversations":[{"from":"Human","value":"red"},{"from":"Assistant","value":"blue\nis"}]}
{"instruction":"red","context":"blue"}
{"instruction":"red","input":"a\nb"}
{"instruction":"red","input":"a\nb"}
{"instruction":"red","input":"a\nb"}
{"instruction":"red","output":"blue"}
{"text":"red"}
{"text":"red blue"}
END
i=0
while IFS= read -r record; do
  i=$((i + 1))
  sed -n "${i}p" wants >wanted
  printf '%s\n' "$record" >FILE
  line=$(kvcal prompts "$SOURCE/datasets/demo/natural" --prompts FILE 2>&1 | sed 's/.*\(jq -c .*\)/\1/')
  printf '[%s]\n' "$record" >FILE
  eval "$line" && cat new.jsonl
  kvcal prompts "$SOURCE/datasets/demo/natural" --prompts new.jsonl --json >/dev/null 2>&1 || echo "not read: $record"
done <sets
