kvcal stats one two
# exits 2
