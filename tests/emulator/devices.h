// Which of the emulated devices a thread of the host uses, and whose streams and events are whose.
#pragma once

namespace emulator {

inline constexpr int kMostDevices = 8;

/// One, or as many as KVCAL_EMULATED_DEVICES says, which programs under test are told by; a test can set it.
int n_devices();
void set_devices(int n);

/// Of this thread, the first one until it chooses. False: there is no such device.
int current_device();
bool use_device(int device);

/// Streams and events belong to the device that was current when they were made.
void own(const void* handle);
void disown(const void* handle);
int owner_of(const void* handle);  // -1: nobody's; null is the current device's default stream

}  // namespace emulator
