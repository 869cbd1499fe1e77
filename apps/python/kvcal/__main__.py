import kvcal

kvcal.main()
