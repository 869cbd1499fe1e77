echo '{"format": "kv-cache-scales"}' >run.json
kvcal solve run.json
# exits 2
