kvcal stats nowhere
# exits 2
