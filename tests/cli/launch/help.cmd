kvcal launch --help
