kvcal launch M --print k8s
