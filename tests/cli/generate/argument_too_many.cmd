kvcal generate one two
