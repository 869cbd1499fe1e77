kvcal evaluate
# exits 2
