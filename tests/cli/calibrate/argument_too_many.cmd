kvcal calibrate one two
# exits 2
