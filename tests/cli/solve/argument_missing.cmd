kvcal solve
# exits 2
