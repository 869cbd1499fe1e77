mkdir run
kvcal solve run
