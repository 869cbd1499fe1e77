kvcal diff A B --josn
# exits 2
