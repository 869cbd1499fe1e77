# The line that is printed makes prompts of the table.
printf 'text,label\r\n"Hello, ""world""",1\r\n"two\nlines",0\r\n' >table.csv
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts table.csv
eval "$(kvcal prompts "$SOURCE/datasets/demo/natural" --prompts table.csv 2>&1 | sed 's/.*JSON lines of it: //')"
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts table.csv.jsonl --json 2>/dev/null | sed 's/, *"input_ids".*//'
