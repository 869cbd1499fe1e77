// A library that the system's loader does not find, for a libkvcal_cuda.so that needs it as the real one needs
// cuBLASLt.
extern "C" void kvcal_needed() {}
