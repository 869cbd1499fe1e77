mkdir d; kvcal doctor --log d
# exits 2
