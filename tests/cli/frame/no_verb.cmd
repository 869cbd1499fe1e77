kvcal
# exits 2
