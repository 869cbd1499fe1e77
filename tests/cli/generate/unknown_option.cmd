kvcal generate X --josn
# exits 2
