kvcal validate
# exits 2
