mkdir run
kvcal stats run
# exits 2
