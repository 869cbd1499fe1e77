kvcal calibrate nowhere
