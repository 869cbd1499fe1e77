kvcal drift none.json --stats none.kvstats
# exits 2
