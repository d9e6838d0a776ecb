// The device's queue pairs on the software controller. CMake adds software_drive.cpp.
#include <test/nvme/queue_cases.cu>
