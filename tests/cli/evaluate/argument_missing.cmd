kvcal evaluate
