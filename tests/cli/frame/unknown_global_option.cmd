kvcal --versoin
# exits 2
