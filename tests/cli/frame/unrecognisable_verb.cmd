kvcal frobnicate
# exits 2
