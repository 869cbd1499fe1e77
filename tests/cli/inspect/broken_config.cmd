mkdir model
echo '{"architectures": [' >model/config.json
kvcal inspect model
# exits 2
