kvcal diff A B --tolerance -1
