kvcal inspect one two
