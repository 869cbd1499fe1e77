kvcal inspect one two
# exits 2
