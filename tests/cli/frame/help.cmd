kvcal --help
