kvcal --help >/dev/full
# exits 2
