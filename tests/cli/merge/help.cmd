kvcal merge --help
