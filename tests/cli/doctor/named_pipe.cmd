mkfifo p; kvcal doctor p
# exits 2
