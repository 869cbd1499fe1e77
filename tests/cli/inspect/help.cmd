kvcal inspect --help
