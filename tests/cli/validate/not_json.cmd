echo "scale = 1" >run.json
kvcal validate run.json
# exits 1
