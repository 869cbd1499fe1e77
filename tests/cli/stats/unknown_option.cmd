kvcal stats X --josn
