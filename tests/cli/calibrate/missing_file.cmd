kvcal calibrate nowhere
# exits 2
