kvcal solve X --josn
