kvcal generate nowhere
