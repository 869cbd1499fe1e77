mkdir model
kvcal generate model --prompt x
