kvcal drift --help
