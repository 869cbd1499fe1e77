# The table is the one that is documented.
kvcal validate --list-rules | sed 's/^/    /' >rules.txt
grep '^    ' "$SOURCE/schemas/validate-rules.md" | cmp - rules.txt && echo documented
kvcal validate --list-rules --json | grep -c '"rule"' | awk '$1 > 50 { print "json" }'
