kvcal doctor nowhere.log
# exits 2
