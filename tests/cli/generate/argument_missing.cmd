kvcal generate
