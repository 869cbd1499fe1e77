kvcal launch M --print slurm --parts -1; kvcal launch M --print slurm --threads 0; kvcal launch M --print slurm --prompts -
# exits 2
