kvcal calibrate
