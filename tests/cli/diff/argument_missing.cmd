kvcal diff one
# exits 2
