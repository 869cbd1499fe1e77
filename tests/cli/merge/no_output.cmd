kvcal merge a.kvstats
# exits 2
