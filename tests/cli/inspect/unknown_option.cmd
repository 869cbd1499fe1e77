kvcal inspect X --josn
# exits 2
