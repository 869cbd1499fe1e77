mkdir run
kvcal solve run
# exits 2
