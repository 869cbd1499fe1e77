kvcal diff --help
