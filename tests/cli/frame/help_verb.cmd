# What other programs have for verbs.
kvcal --help >help; kvcal help | cmp - help; kvcal -h | cmp - help
kvcal solve --help >help; kvcal help solve | cmp - help
kvcal --version >version; kvcal version | cmp - version; kvcal -V | cmp - version
kvcal solve --version | cmp - version; kvcal help_me --version 2>/dev/null && echo known
exec 2>&1
kvcal help eval
kvcal eval
kvcal solve x --dtype fp8
kvcal solve x --policy perc
# exits 2
