kvcal solve
