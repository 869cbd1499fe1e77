kvcal merge -o out.kvstats
# exits 2
