// The conformance suite on the software controller. CMake adds conformance_*.cpp, with the cases,
// and software_drive.cpp.
