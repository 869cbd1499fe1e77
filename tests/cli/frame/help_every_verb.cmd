# Each verb explains itself, with examples that begin with its own name.
for verb in $(kvcal --help | awk "/^[^ ]/ { on = /^Verbs:/ } on && /^  [a-z]/ { print \$1 }"); do
  kvcal "$verb" --help >help.txt || echo "$verb: failed"
  grep -q "^Examples:$" help.txt || echo "$verb: no examples"
  grep -q "^  kvcal $verb " help.txt || echo "$verb: no example of itself"
  grep -q "^Usage: kvcal $verb" help.txt || echo "$verb: no usage line"
done
