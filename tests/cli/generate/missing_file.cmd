kvcal generate nowhere --prompt hello
# exits 2
