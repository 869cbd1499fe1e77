kvcal doctor nowhere.log
