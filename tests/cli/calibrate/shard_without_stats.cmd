kvcal calibrate M --shard 1/2
# exits 2
