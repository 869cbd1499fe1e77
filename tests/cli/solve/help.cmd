kvcal solve --help
