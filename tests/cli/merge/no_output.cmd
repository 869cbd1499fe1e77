kvcal merge a.kvstats
