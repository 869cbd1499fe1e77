kvcal report --help
