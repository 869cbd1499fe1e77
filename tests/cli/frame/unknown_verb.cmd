kvcal promts MODEL
