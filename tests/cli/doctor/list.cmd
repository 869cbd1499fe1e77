kvcal doctor --list | grep -c . | awk "{ print (\$1 > 100) }"
kvcal doctor --list | grep "^LG2 "
