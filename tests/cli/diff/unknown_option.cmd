kvcal diff A B --josn
