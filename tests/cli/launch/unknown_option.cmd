kvcal launch M --print slurm --part 2
