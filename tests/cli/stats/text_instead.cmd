echo '{"format": "kv-cache-scales"}' >run.json
kvcal stats run.json
# exits 2
