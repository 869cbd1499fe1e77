for option in "-o x.json" "--policy pow2" "--headroom 4" "--until-stable 1"; do kvcal calibrate M --shard 1/2 --stats s $option; done
# exits 2
