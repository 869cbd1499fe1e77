kvcal validate X --josn
# exits 2
