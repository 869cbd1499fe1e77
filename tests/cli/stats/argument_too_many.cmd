kvcal stats one two
