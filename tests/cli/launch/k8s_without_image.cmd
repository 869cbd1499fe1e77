kvcal launch M --print k8s
# exits 2
