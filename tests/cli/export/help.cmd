kvcal export --help
