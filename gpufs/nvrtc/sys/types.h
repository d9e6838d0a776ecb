// Stand-in for NVRTC: the one type of it that device code of gpufs names.
#pragma once

using ssize_t = long;
