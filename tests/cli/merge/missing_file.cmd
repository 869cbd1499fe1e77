kvcal merge nowhere.kvstats -o out.kvstats
