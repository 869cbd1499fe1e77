kvcal evaluate model --josn
