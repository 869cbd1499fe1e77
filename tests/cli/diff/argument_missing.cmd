kvcal diff one
