kvcal launch no-such-folder --print slurm
