kvcal launch no-such-folder --print slurm
# exits 2
