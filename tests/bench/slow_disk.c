// LD_PRELOAD: a disk that takes SLOW_DISK_BYTES_PER_S for what is written below SLOW_DISK_FOLDER, one write at a time, as a disk whose
// cache is full. Reads and everything elsewhere are as they were.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;

static int is_slow(int descriptor) {
  const char* folder = getenv("SLOW_DISK_FOLDER");
  char link[64];
  char path[4096];
  if (folder == NULL) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return strncmp(path, folder, strlen(folder)) == 0;
}

static void wait_for(ssize_t bytes) {
  const char* rate = getenv("SLOW_DISK_BYTES_PER_S");
  if (bytes <= 0 || rate == NULL) return;
  const double seconds = (double)bytes / atof(rate);
  struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  pthread_mutex_lock(&disk);
  nanosleep(&time, NULL);
  pthread_mutex_unlock(&disk);
}

ssize_t write(int descriptor, const void* data, size_t count) {
  static ssize_t (*next)(int, const void*, size_t);
  if (next == NULL) next = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  const ssize_t done = next(descriptor, data, count);
  if (done > 0 && is_slow(descriptor)) wait_for(done);
  return done;
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  static ssize_t (*next)(int, const struct iovec*, int);
  if (next == NULL) next = (ssize_t(*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "writev");
  const ssize_t done = next(descriptor, parts, count);
  if (done > 0 && is_slow(descriptor)) wait_for(done);
  return done;
}

ssize_t pwrite64(int descriptor, const void* data, size_t count, off_t offset) {
  static ssize_t (*next)(int, const void*, size_t, off_t);
  if (next == NULL) next = (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  const ssize_t done = next(descriptor, data, count, offset);
  if (done > 0 && is_slow(descriptor)) wait_for(done);
  return done;
}
ssize_t pwrite(int descriptor, const void* data, size_t count, off_t offset) { return pwrite64(descriptor, data, count, offset); }
