kvcal validate one two
