kvcal solve run.kvstats --policy minmax
# exits 2
