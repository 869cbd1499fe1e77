kvcal launch M --print slurm --part 2
# exits 2
