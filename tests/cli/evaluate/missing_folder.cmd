kvcal evaluate nowhere
