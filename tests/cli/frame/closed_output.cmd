kvcal --help >&-
