kvcal stats
# exits 2
