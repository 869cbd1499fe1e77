kvcal inspect nowhere
# exits 2
