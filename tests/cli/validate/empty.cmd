: >run.json
kvcal validate run.json
# exits 1
