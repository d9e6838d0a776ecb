/* DRAGON's functions over gpufs: files mapped for unmodified kernels. C and C++.
 *
 * One address space serves the process. It is made by the first call, on the device that is current
 * then. Any host thread calls. docs/mapping.md says who sees what when. */
#ifndef GPUFS_COMPAT_DRAGON_H
#define GPUFS_COMPAT_DRAGON_H

#include <stddef.h>

#ifdef __cplusplus
#include <sys/types.h>
extern "C" {
#endif

/* Flags of dragon_map(). The second names are those of the paper. */
enum {
  D_F_READ = 1,       /* kernels read */
  D_F_WRITE = 2,      /* kernels write; alone: what the file had before is not read */
  D_F_CREATE = 4,     /* the file begins as `size` zeros, whatever it had before */
  D_F_DONTTRASH = 8,  /* stays in GPU memory; no effect: where objects lie follows from budgets */
  D_F_VOLATILE = 16,  /* never written back */
  D_F_USEHOSTBUF = 32, /* through pinned memory; all files are read so */
  D_READ = D_F_READ,
  D_WRITE = D_F_WRITE,
  D_VOLATILE = D_F_VOLATILE
};

typedef enum {
  D_OK = 0,
  D_ERR_FILE,            /* the file cannot be opened, made, read or written */
  D_ERR_IOCTL,           /* the device failed */
  D_ERR_UVM,             /* not used: there is no driver of ours */
  D_ERR_INTVAL,          /* a bad size, offset, address or flag */
  D_ERR_MEM,             /* no memory, addresses or room on the disk */
  D_ERR_NOT_IMPLEMENTED  /* gpufs cannot do this */
} dragonError_t;
typedef dragonError_t dError_t;

/* Maps the first `size` bytes of a file and stores the address for CPU and kernels in `*address`.
 * A file for reading must have them. Errors are explained on stderr, with the path. */
dragonError_t dragon_map(const char* filename, size_t size, unsigned short flags, void** address);

/* The same from byte `start` on, a multiple of 4096. */
dragonError_t dragon_map_from(const char* filename, size_t size, long long start,
                              unsigned short flags, void** address);

/* What kernels and the CPU have written is in the file and durable. */
dragonError_t dragon_sync(void* address);

/* What they have written is in the file. */
dragonError_t dragon_flush(void* address);

/* Writes back, and uses the mapping with D_F_READ, D_F_WRITE or both from now on. Other flags of it
 * stay; D_F_CREATE is ignored. D_ERR_NOT_IMPLEMENTED: a volatile mapping, or one in managed memory
 * that is used otherwise. */
dragonError_t dragon_remap(void* address, unsigned short flags);

/* Writes back and unmaps. */
dragonError_t dragon_unmap(void* address);

/* The driver's limits for memory of the host. They have no effect: gpufs has settings for that,
 * GPUFS_DEVICE_MEMORY and GPUFS_HOST_MEMORY. */
dragonError_t dragon_trash_set_num_blocks(unsigned long blocks);
dragonError_t dragon_trash_set_num_reserved_sys_cache_pages(unsigned long pages);

#ifdef __cplusplus
} /* extern "C" */

/* As in the paper. */
inline dError_t dragon_map(char const* filename, size_t size, off_t start, int flags,
                           void** address) {
  return dragon_map_from(filename, size, start, static_cast<unsigned short>(flags), address);
}
inline dError_t dragon_sync(void* address, size_t) { return dragon_sync(address); }
#endif

#endif /* GPUFS_COMPAT_DRAGON_H */
