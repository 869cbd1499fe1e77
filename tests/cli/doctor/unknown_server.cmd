kvcal doctor --server vlmm@0.3 x
# exits 2
