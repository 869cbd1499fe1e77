kvcal evaluate nowhere
# exits 2
