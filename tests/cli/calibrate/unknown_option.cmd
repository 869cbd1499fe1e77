kvcal calibrate X --polcy pow2
