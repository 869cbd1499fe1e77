kvcal promts MODEL
# exits 2
