kvcal launch M --print pbs
