kvcal report nowhere.kvstats
