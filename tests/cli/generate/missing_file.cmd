kvcal generate nowhere --prompt hello
