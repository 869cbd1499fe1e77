kvcal apply --help
