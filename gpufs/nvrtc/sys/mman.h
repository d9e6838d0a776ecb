// Stand-in for NVRTC: the flags of gmmap and gmsync, as on Linux.
#pragma once

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MS_ASYNC 1
#define MS_INVALIDATE 2
#define MS_SYNC 4
