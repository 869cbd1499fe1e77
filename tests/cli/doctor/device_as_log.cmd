kvcal doctor --log /dev/zero
