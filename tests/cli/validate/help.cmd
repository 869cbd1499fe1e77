kvcal validate --help
