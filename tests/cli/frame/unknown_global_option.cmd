kvcal --versoin
