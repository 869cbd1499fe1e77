kvcal merge nowhere.kvstats -o out.kvstats
# exits 2
