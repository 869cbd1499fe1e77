kvcal calibrate M --shard 1/2
