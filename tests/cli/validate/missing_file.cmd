kvcal validate nowhere
# exits 2
