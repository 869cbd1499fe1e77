# Help of every verb: no line beyond 80 columns, no value that is only "TEXT".
verbs=$(kvcal --help | sed -n '/^Verbs:/,/^$/ s/^  \([a-z][a-z]*\) .*/\1/p')
echo "$verbs" | grep -c .
for verb in '' $verbs; do
  kvcal $verb --help"${verb:+-all}" | grep -E '^.{81}|^  -[^ ]* (TEXT|U?INT|FLOAT)'
done
kvcal calibrate --help | grep -c .
