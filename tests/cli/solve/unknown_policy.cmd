kvcal solve run.kvstats --policy minmax
