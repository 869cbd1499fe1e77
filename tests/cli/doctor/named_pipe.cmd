mkfifo p; kvcal doctor p
