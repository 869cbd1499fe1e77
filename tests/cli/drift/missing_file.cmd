kvcal drift none.json --stats none.kvstats
