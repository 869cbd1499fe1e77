kvcal merge X -o out --josn
# exits 2
