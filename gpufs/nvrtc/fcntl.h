// Stand-in for NVRTC: the flags of open(2) that gopen takes, and the advice of posix_fadvise(2), as
// on 64-bit Linux.
#pragma once

#define O_RDONLY 00
#define O_WRONLY 01
#define O_RDWR 02
#define O_ACCMODE 03
#define O_CREAT 0100
#define O_EXCL 0200
#define O_TRUNC 01000
#define O_APPEND 02000
#if defined(__aarch64__)
#define O_NOFOLLOW 0100000
#else
#define O_NOFOLLOW 0400000
#endif

#define POSIX_FADV_NORMAL 0
#define POSIX_FADV_RANDOM 1
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_WILLNEED 3
#define POSIX_FADV_DONTNEED 4
