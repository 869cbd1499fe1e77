kvcal stats nowhere
