mkdir model
kvcal generate model --prompt x
# exits 2
