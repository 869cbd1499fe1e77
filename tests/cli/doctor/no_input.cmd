kvcal doctor
# exits 2
