mkdir d; kvcal doctor --log d
