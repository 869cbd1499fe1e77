kvcal report
