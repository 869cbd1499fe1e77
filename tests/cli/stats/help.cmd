kvcal stats --help
