kvcal stats
