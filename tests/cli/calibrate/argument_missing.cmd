kvcal calibrate
# exits 2
