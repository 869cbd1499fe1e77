kvcal generate one two
# exits 2
