# Nothing in a log steers the terminal of who reads the report.
printf 'KeyError: \047layers.\033]0;title\007k_scale \001\302\233 x\n' | kvcal doctor -
