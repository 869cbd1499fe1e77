kvcal plan --help
