kvcal solve one two
