kvcal fold --help
