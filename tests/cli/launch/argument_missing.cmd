kvcal launch --print slurm
# exits 2
