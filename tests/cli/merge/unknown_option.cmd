kvcal merge X -o out --josn
