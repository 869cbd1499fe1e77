kvcal calibrate X --polcy pow2
# exits 2
