// Stand-in for NVRTC, which knows the device's own types and functions without it.
#pragma once
