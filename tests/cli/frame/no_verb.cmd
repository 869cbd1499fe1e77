kvcal
