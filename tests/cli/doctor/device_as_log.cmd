kvcal doctor --log /dev/zero
# exits 2
