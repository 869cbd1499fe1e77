for shard in 0/2 3/2 2 1/ /2 a/b 1/2/3 -1/2 auto/ auto/0 auto/x 99999999999999999999/2; do kvcal calibrate M --shard=$shard --stats s; done
# exits 2
