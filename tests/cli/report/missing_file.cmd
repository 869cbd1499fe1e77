kvcal report nowhere.kvstats
# exits 2
