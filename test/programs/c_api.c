/* c_api FILE: uses <gpufs/gpufs.h> as a C program does. Writes FILE, and removes it at the end.
   Exit status: 0 if all that the header promises holds, 77 if there is no device. */
#include <gpufs/gpufs.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wrong = 0;

static void check(int holds, char const* what) {
  if (!holds) {
    printf("FAILED: %s; last error: %s\n", what, gpufs_last_error());
    ++wrong;
  }
}

#define CHECK(condition) check((condition), #condition)
#define SAYS(text) check(strstr(gpufs_last_error(), text) != NULL, "says " text)

/* Texts of refusals name the value that was wrong. */
static void check_remedies(gpufs_filesystem* fs, char const* path) {
  static char bytes[8];
  int const reads = gpufs_open(fs, path, O_RDONLY, 0);
  int const appends = gpufs_open(fs, path, O_WRONLY | O_APPEND, 0);
  CHECK(reads > 0 && appends > 0);
  CHECK(gpufs_open(fs, path, O_RDONLY | O_TRUNC, 0) == -EINVAL);
  SAYS("flags=0x");
  CHECK(gpufs_open(fs, path, -1, 0) == -EINVAL);
  SAYS("flags=0xffffffff: must be O_RDONLY");
  CHECK(gpufs_open(fs, "/dev/null", O_RDONLY, 0) == -EOPNOTSUPP);
  SAYS("must be a regular file");
  CHECK(gpufs_read(fs, reads, bytes, 1, -7) == -EINVAL);
  SAYS("offset=-7: must be >= 0");
  CHECK(gpufs_read(fs, appends, bytes, 1, 0) == -EBADF);
  SAYS("must be open for reading");
  CHECK(gpufs_write(fs, reads, bytes, 1, 0) == -EBADF);
  SAYS("must be open for writing");
  CHECK(gpufs_write(fs, appends, bytes, 1, 0) == -EOPNOTSUPP);
  SAYS("O_APPEND: append in a kernel");
  CHECK(gpufs_advise(fs, reads, 0, 0, 9) == -EINVAL);
  SAYS("advice=9: must be from 0 to 4");
  CHECK(gpufs_advise(fs, reads, -1, 0, 1) == -EINVAL);
  SAYS("offset=-1");
  CHECK(gpufs_advise(fs, reads, 0, -2, 1) == -EINVAL);
  SAYS("length=-2");
  CHECK(gpufs_close(fs, reads) == 0 && gpufs_close(fs, appends) == 0);
  CHECK(gpufs_close(fs, 9999) == -EBADF);
  SAYS("fd=9999: must be open");
}

int main(int argc, char** argv) {
  static char const settings[] =
      "# small\n page_size = 4K\ncache_size = \"1M\"\n\nprefetch_memory=64K # enough\n"
      "prefetch_size = 0\nstaging_size = 64K\nwrite_memory = 1M\nhost_threads = 1\n";
  static char bytes[100000], back[100000];
  gpufs_filesystem* fs = (gpufs_filesystem*)bytes;
  char stats[4096], small[8];
  char* ref;
  int made, fd, i;
  if (argc != 2) return 2;
  CHECK(gpufs_create("page_size = 3000", &fs) == -EINVAL && fs == NULL);
  CHECK(strstr(gpufs_last_error(), "page_size") != NULL);
  CHECK(gpufs_create("page_size", &fs) == -EINVAL);
  CHECK(gpufs_create("nonsense = 1", &fs) == -EINVAL);
  CHECK(strstr(gpufs_last_error(), "line 1") != NULL);
  CHECK(gpufs_create(NULL, NULL) == -EFAULT);
  made = gpufs_create(settings, &fs);
  if (made == -ENODEV) {
    printf("no device: %s\n", gpufs_last_error());
    return wrong != 0 ? 1 : 77;
  }
  CHECK(made == 0);
  if (made != 0) return 1;

  for (i = 0; i < (int)sizeof(bytes); ++i) bytes[i] = (char)(i * 7 + i / 251);
  unlink(argv[1]);
  CHECK(gpufs_open(fs, argv[1], O_RDONLY, 0) == -ENOENT);
  CHECK(strstr(gpufs_last_error(), argv[1]) != NULL);
  CHECK(gpufs_open(fs, NULL, O_RDONLY, 0) == -EFAULT);
  fd = gpufs_open(fs, argv[1], O_RDWR | O_CREAT, 0600);
  CHECK(fd > 0);
  CHECK(gpufs_size(fs, fd) == 0);
  CHECK(gpufs_write(fs, fd, bytes, sizeof(bytes), 5) == (int64_t)sizeof(bytes));
  CHECK(gpufs_size(fs, fd) == (int64_t)sizeof(bytes) + 5);
  CHECK(gpufs_read(fs, fd, back, sizeof(back), 5) == (int64_t)sizeof(back));
  CHECK(memcmp(bytes, back, sizeof(bytes)) == 0);
  CHECK(gpufs_read(fs, fd, back, 100, (int64_t)sizeof(bytes)) == 5);
  CHECK(gpufs_read(fs, fd, back, 100, (int64_t)1 << 40) == 0);
  CHECK(gpufs_read(fs, fd, back, 100, -1) == -EINVAL);
  CHECK(gpufs_read(fs, fd, NULL, 1, 0) == -EFAULT);
  CHECK(gpufs_read(fs, fd, NULL, 0, 0) == 0);
  CHECK(gpufs_write(fs, fd, bytes, 1, -1) == -EINVAL);
  CHECK(gpufs_read(fs, 9999, back, 1, 0) == -EBADF);
  CHECK(gpufs_size(fs, -5) == -EBADF);
  CHECK(gpufs_advise(fs, fd, 0, 0, GPUFS_ADVICE_RANDOM) == 0);
  CHECK(gpufs_advise(fs, fd, 0, 0, 77) == -EINVAL);
  CHECK(gpufs_sync(fs, fd) == 0);
  CHECK(gpufs_sync(fs, -1) == 0);

  CHECK(gpufs_stats(fs, stats, sizeof(stats)) == (int64_t)strlen(stats));
  CHECK(stats[0] == '{' && strstr(stats, "\"hits\": ") != NULL);
  // The length of the whole text. It varies, as threads of the host count meanwhile.
  CHECK(gpufs_stats(fs, small, sizeof(small)) > (int64_t)sizeof(small));
  CHECK(gpufs_stats(fs, NULL, 0) > (int64_t)sizeof(small));
  CHECK(strlen(small) == 7);
  CHECK(gpufs_stats(fs, NULL, 5) == -EFAULT);

  ref = malloc(gpufs_ref_size());
  CHECK(gpufs_ref(fs, ref, gpufs_ref_size()) == 0);
  CHECK(gpufs_ref(fs, ref, 8) == -EINVAL);
  CHECK(gpufs_ref(fs, NULL, gpufs_ref_size()) == -EFAULT);
  CHECK(gpufs_ref_address(fs) != NULL && gpufs_ref_address(NULL) == NULL);
  CHECK(gpufs_ref(NULL, ref, gpufs_ref_size()) == -EFAULT);
  free(ref);

  check_remedies(fs, argv[1]);
  CHECK(gpufs_close(fs, fd) == 0);
  CHECK(gpufs_close(fs, fd) == -EBADF);
  CHECK(gpufs_close(NULL, fd) == -EFAULT);
  CHECK(gpufs_destroy(fs) == 0);
  CHECK(gpufs_destroy(NULL) == 0);
  unlink(argv[1]);
  printf("device: %s; %d wrong\n", gpufs_device_kind(), wrong);
  return wrong != 0;
}
