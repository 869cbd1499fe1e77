kvcal solve X --josn
# exits 2
