kvcal calibrate one two
