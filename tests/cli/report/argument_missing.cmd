kvcal report
# exits 2
