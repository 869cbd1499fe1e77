mkdir run
kvcal stats run
