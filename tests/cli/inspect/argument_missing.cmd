kvcal inspect
# exits 2
