kvcal generate
# exits 2
