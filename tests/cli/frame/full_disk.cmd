kvcal --help >/dev/full
