kvcal generate X --josn
