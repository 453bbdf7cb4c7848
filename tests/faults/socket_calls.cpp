// Calls of the family "socket": connections, and waiting for them.
#include <cerrno>

#include <netdb.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/faults/fault_plan.h"

using faults::Count;
using faults::Half;
using faults::Hit;
using faults::kErrno;
using faults::kSocket;

namespace {

// Whether a call fails that no signal interrupts.
bool Fails() { return Count(kSocket).is && faults::WantedErrno() != EINTR; }

// Whether a call that moves bytes fails; half of them move where that is the plan.
bool Fails(const Hit& hit, size_t& bytes) {
  if (hit.is && hit.how == faults::kShort) {
    bytes = Half(bytes);
  }
  return hit.is && hit.how == kErrno;
}

}  // namespace

EXPORTED int socket(int domain, int type, int protocol) noexcept {
  NEXT(socket);
  return Fails() ? -1 : next(domain, type, protocol);
}
EXPORTED int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  NEXT(socketpair);
  return Fails() ? -1 : next(domain, type, protocol, ends);
}
EXPORTED int bind(int socket, const sockaddr* address, socklen_t size) noexcept {
  NEXT(bind);
  return Fails() ? -1 : next(socket, address, size);
}
EXPORTED int listen(int socket, int queue) noexcept {
  NEXT(listen);
  return Fails() ? -1 : next(socket, queue);
}
EXPORTED int accept(int socket, sockaddr* address, socklen_t* size) {
  NEXT(accept);
  return Count(kSocket).is ? -1 : next(socket, address, size);
}
EXPORTED int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  NEXT(accept4);
  return Count(kSocket).is ? -1 : next(socket, address, size, flags);
}
EXPORTED int getsockname(int socket, sockaddr* address, socklen_t* size) noexcept {
  NEXT(getsockname);
  return Fails() ? -1 : next(socket, address, size);
}
EXPORTED int setsockopt(int socket, int level, int name, const void* value,
                        socklen_t size) noexcept {
  NEXT(setsockopt);
  return Fails() ? -1 : next(socket, level, name, value, size);
}
EXPORTED int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                         addrinfo** out) {
  NEXT(getaddrinfo);
  return Fails() ? EAI_SYSTEM : next(node, service, hints, out);
}

EXPORTED ssize_t recv(int socket, void* out, size_t bytes, int flags) {
  NEXT(recv);
  return Fails(Count(kSocket, true), bytes) ? -1 : next(socket, out, bytes, flags);
}
EXPORTED ssize_t send(int socket, const void* data, size_t bytes, int flags) {
  NEXT(send);
  return Fails(Count(kSocket, true), bytes) ? -1 : next(socket, data, bytes, flags);
}
EXPORTED ssize_t readv(int file, const iovec* parts, int count) {
  NEXT(readv);
  return Count(kSocket).is ? -1 : next(file, parts, count);
}
EXPORTED ssize_t sendfile(int out, int in, off_t* at, size_t bytes) noexcept {
  NEXT(sendfile);
  return Fails(Count(kSocket, true), bytes) ? -1 : next(out, in, at, bytes);
}

EXPORTED int poll(pollfd* files, nfds_t count, int milliseconds) {
  NEXT(poll);
  return Count(kSocket).is ? -1 : next(files, count, milliseconds);
}
EXPORTED int epoll_create(int size) noexcept {
  NEXT(epoll_create);
  return Fails() ? -1 : next(size);
}
EXPORTED int epoll_create1(int flags) noexcept {
  NEXT(epoll_create1);
  return Fails() ? -1 : next(flags);
}
EXPORTED int epoll_ctl(int queue, int operation, int file, epoll_event* event) noexcept {
  NEXT(epoll_ctl);
  // A change or an end needs nothing of the system.
  return operation == EPOLL_CTL_ADD && Fails() ? -1 : next(queue, operation, file, event);
}
EXPORTED int epoll_wait(int queue, epoll_event* events, int most, int milliseconds) {
  NEXT(epoll_wait);
  return Count(kSocket).is ? -1 : next(queue, events, most, milliseconds);
}
EXPORTED int eventfd(unsigned value, int flags) noexcept {
  NEXT(eventfd);
  return Fails() ? -1 : next(value, flags);
}
EXPORTED int timerfd_create(clockid_t clock, int flags) noexcept {
  NEXT(timerfd_create);
  return Fails() ? -1 : next(clock, flags);
}
