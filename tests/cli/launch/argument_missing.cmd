kvcal launch --print slurm
