printf '!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!' > answer.txt
kvcal doctor --output answer.txt --json
# exits 1
