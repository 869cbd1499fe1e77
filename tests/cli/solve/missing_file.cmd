kvcal solve nowhere
# exits 2
