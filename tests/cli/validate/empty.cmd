: >run.json
kvcal validate run.json
