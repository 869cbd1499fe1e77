# Nothing in a log steers the terminal of who reads the report.
printf 'KeyError: \047layers.0.\033]0;title\007k_scale\047 \001\302\233 x\n' | kvcal doctor -
# exits 1
