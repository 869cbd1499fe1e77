kvcal --help >&-
# exits 2
