kvcal launch M --print pbs
# exits 2
