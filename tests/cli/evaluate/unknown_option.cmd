kvcal evaluate model --josn
# exits 2
