kvcal evaluate --help
