kvcal stats X --josn
# exits 2
