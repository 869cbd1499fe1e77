kvcal merge -o out.kvstats
