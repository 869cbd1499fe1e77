kvcal solve one two
# exits 2
