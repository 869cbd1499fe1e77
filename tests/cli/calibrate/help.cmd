kvcal calibrate --help
