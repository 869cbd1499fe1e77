kvcal validate X --josn
