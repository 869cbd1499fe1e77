kvcal validate one two
# exits 2
