# Of validate, of doctor, of both; recognized in several ways; in any case. What is not one is said.
for id in $({ kvcal validate --list-rules; kvcal doctor --list; } | cut -d ' ' -f 1); do
  kvcal explain "$id" >page.txt || echo "$id: no page"
done
kvcal explain A03 f03 C05 LG36
kvcal explain LG2 nope
# exits 2
