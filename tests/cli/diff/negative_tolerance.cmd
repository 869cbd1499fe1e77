kvcal diff A B --tolerance -1
# exits 2
