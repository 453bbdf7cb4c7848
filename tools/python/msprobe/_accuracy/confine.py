"""What a worker may still do once it has its framework: compute.

No network, no program, no process, no file written but below its scratch folder. The kernel holds it to that (Landlock for files, a filter
of system calls for the rest), so that an operator which is made to do more by its arguments cannot. docs/security.md has the whole list.
"""
import ctypes
import errno
import glob
import os
import platform
import resource
import struct

PR_SET_NO_NEW_PRIVS = 38
AF_UNIX = 1
CLONE_THREAD = 0x10000
ALLOW, REFUSE = 0x7FFF0000, 0x00050000  # with errno in the lower bits
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
SET_FILTER, ALL_THREADS = 1, 1

# System calls by their numbers on x86-64 and aarch64; None: the machine has no such call.
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
SECCOMP, CAPGET, CAPSET = (317, 277), (125, 90), (126, 91)
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # everywhere
NETWORK = {"connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242), "io_uring_setup": (425, 425),
           "io_uring_enter": (426, 426), "io_uring_register": (427, 427)}
PROGRAMS = {"execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None)}
ATTRIBUTES = {"chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None), "fchown": (93, 55),
              "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
              "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466), "utime": (132, None),
              "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88)}
SYSTEM = {"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272), "pidfd_open": (434, 434),
          "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
          "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
          "fsconfig": (431, 431), "fsmount": (432, 432), "mount_setattr": (442, 442), "mknod": (133, None), "mknodat": (259, 33),
          "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "bpf": (321, 280), "perf_event_open": (298, 241),
          "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "kexec_load": (246, 104),
          "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
          "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "settimeofday": (164, 170),
          "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162)}
SIGNALS = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240)}
SOCKET, CLONE, CLONE3, LIMITS, OPENAT2, IOCTL = (41, 198), (56, 220), (435, 435), (302, 261), (437, 437), (16, 29)
TYPED_IN = (0x5412, 0x541C)  # what a terminal takes for its user's words: TIOCSTI, TIOCLINUX
# Where there is no Landlock: what changes a folder, and what opens a file (the argument that has the flags).
FOLDERS = {"creat": (85, None), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "unlink": (87, None), "unlinkat": (263, 35),
           "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "link": (86, None), "linkat": (265, 37), "symlink": (88, None),
           "symlinkat": (266, 36), "truncate": (76, 45)}
OPENS = {"open": ((2, None), 1), "openat": ((257, 56), 2)}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

WRITE_FILE, MAKE_CHAR, MAKE_BLOCK, TRUNCATE = 1 << 1, 1 << 6, 1 << 11, 1 << 14
# By the version of Landlock that knows them: rights over files, over TCP, and what is kept inside.
FILE_RIGHTS = ((1, 0x1FF2), (2, 1 << 13), (3, TRUNCATE))
TCP_RIGHTS, SCOPES = (4, 0b11), (6, 0b11)
DEVICES = {"cuda": ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/shm"),
           "npu": ("/dev/davinci*", "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/dvpp*", "/dev/upgrade", "/dev/shm")}

# Capabilities a privileged user keeps: opening files and devices of others, and holding memory for devices.
CAPABILITIES = 1 << 1 | 1 << 2 | 1 << 14
CAPABILITY_VERSION = 0x20080522

# Whatever a library wants to keep for next time.
CACHES = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR",
          "TRITON_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH", "CUDA_CACHE_PATH", "MPLCONFIGDIR", "ASCEND_WORK_PATH", "ASCEND_CACHE_PATH",
          "ASCEND_PROCESS_LOG_PATH")

_libc = ctypes.CDLL(None, use_errno=True)


def _call(number, *arguments):
    result = _libc.syscall(ctypes.c_long(number), *[ctypes.c_long(value) if isinstance(value, int) else value for value in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _no_new_privileges():
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _drop_capabilities():
    """The root's power over other processes and over the system."""
    machine = MACHINES[platform.machine()][0]
    header, sets = struct.pack("<Ii", CAPABILITY_VERSION, 0), ctypes.create_string_buffer(24)
    _call(CAPGET[machine], header, ctypes.addressof(sets))
    words = struct.unpack("<6I", sets.raw)
    kept = [CAPABILITIES & words[1], CAPABILITIES & words[1], 0, 0, 0, 0]
    _call(CAPSET[machine], header, struct.pack("<6I", *kept))


def inherit_nothing(kept):
    """No descriptor beyond those, no core file; of all processes the first to go where memory runs out."""
    with os.scandir("/proc/self/fd") as entries:
        others = [int(entry.name) for entry in entries if int(entry.name) > kept]
    for descriptor in others:
        try:
            os.close(descriptor)
        except OSError:
            pass  # that of the list
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def _landlock(scratch, device):
    """Files are written below `scratch` alone, devices excepted; no TCP. Holds for this thread and those that it starts."""
    version = _call(CREATE_RULESET, None, 0, 1)
    files = sum(rights for first, rights in FILE_RIGHTS if version >= first)
    words = [files]
    for first, rights in (TCP_RIGHTS, SCOPES):
        if version >= first:
            words.append(rights)
    attributes = struct.pack("<%dQ" % len(words), *words)
    rules = _call(CREATE_RULESET, attributes, len(attributes), 0)

    def permit(path, rights):
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            _call(ADD_RULE, rules, 1, struct.pack("<Qi", rights & files, opened), 0)
        finally:
            os.close(opened)
    try:
        if scratch:
            permit(scratch, files & ~(MAKE_CHAR | MAKE_BLOCK))
        permit("/dev/null", WRITE_FILE | TRUNCATE)
        patterns = DEVICES.get(device, sum(DEVICES.values(), ()) if device in ("auto", "mindspore") else ())
        for path in [found for pattern in patterns for found in glob.glob(pattern)]:
            permit(path, files & ~(MAKE_CHAR | MAKE_BLOCK) if os.path.isdir(path) else WRITE_FILE | TRUNCATE)
        _no_new_privileges()
        _call(RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def close_files(scratch, device):
    """Caches go to the scratch folder, which becomes the current one. What the system does not allow, as text; None: all is held."""
    if scratch:
        os.environ.update((name, scratch) for name in CACHES)
        os.chdir(scratch)
    try:
        _drop_capabilities()
    except (KeyError, OSError):
        pass  # whoever has none
    try:
        _landlock(scratch, device)
    except OSError as error:
        return "Landlock: %s" % error.strerror
    return None


def _statement(code, value, if_true=0, if_false=0):
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _argument(place):
    return _statement(LOAD, 16 + 8 * place)  # its lower half


def _filter(machine, architecture, may_start, sockets, read_only):
    """The program that the kernel runs for every system call."""
    refuse, allow = _statement(RETURN, REFUSE | errno.EPERM), _statement(RETURN, ALLOW)
    parts = [_statement(LOAD, 4), _statement(EQUAL, architecture, 1, 0), refuse, _statement(LOAD, 0)]
    if machine == 0:  # the numbers of x32
        parts += [_statement(AT_LEAST, 0x40000000, 0, 1), refuse]

    def on(numbers, *then):
        if numbers[machine] is not None:
            parts.extend([_statement(EQUAL, numbers[machine], 0, len(then)), *then])
    tables = [NETWORK, SYSTEM] + ([] if may_start else [PROGRAMS, ATTRIBUTES]) + ([FOLDERS] if read_only else [])
    for table in tables:
        if not (sockets and table is NETWORK):
            for numbers in table.values():
                on(numbers, refuse)
    no_such_family = _statement(RETURN, REFUSE | errno.EAFNOSUPPORT)
    on(SOCKET, *([_argument(0), _statement(EQUAL, AF_UNIX, 0, 1), allow] if sockets else []), no_such_family)
    if sockets:
        for name in ("bind", "listen", "accept", "accept4", "io_uring_setup", "io_uring_enter", "io_uring_register"):
            on(NETWORK[name], refuse)
    own = os.getpid()
    if not may_start:
        for numbers in SIGNALS.values():  # tkill names a thread: what it may name is not known beforehand
            on(numbers, *([refuse] if numbers is SIGNALS["tkill"] else [_argument(0), _statement(EQUAL, own, 0, 1), allow, refuse]))
        on(CLONE, _argument(0), _statement(ANY_BIT, CLONE_THREAD, 0, 1), allow, refuse)
        on(CLONE3, _statement(RETURN, REFUSE | errno.ENOSYS))  # the libraries then use clone
    on(LIMITS, _argument(0), _statement(EQUAL, 0, 1, 0), _statement(EQUAL, own, 0, 1), allow, refuse)
    on(IOCTL, _argument(1), _statement(EQUAL, TYPED_IN[0], 1, 0), _statement(EQUAL, TYPED_IN[1], 0, 1), refuse, allow)
    if read_only:
        for numbers, place in OPENS.values():
            on(numbers, _argument(place), _statement(ANY_BIT, WRITING, 0, 1), _statement(RETURN, REFUSE | errno.EACCES), allow)
        on(OPENAT2, _statement(RETURN, REFUSE | errno.ENOSYS))
    parts.append(allow)
    return b"".join(parts)


def close_calls(may_start=False, sockets=False, read_only=False):
    """For all threads, from here on. `may_start`: compilers of an NPU are programs; `sockets`: its driver is spoken to by local ones;
    `read_only`: files are held by this filter, as Landlock is not here. What the system does not allow, as text; None: all is held."""
    try:
        machine, architecture = MACHINES[platform.machine()]
        program = _filter(machine, architecture, may_start, sockets, read_only)
        held = ctypes.create_string_buffer(program, len(program))
        described = struct.pack("HP", len(program) // 8, ctypes.addressof(held))
        _no_new_privileges()
        if _call(SECCOMP[machine], SET_FILTER, ALL_THREADS, described) != 0:
            return "the filter of system calls does not reach all threads"
    except KeyError:
        return "system calls are not known on %s" % platform.machine()
    except OSError as error:
        return "the filter of system calls: %s" % error.strerror
    return None


def bound_memory(size):
    """Of what this process takes for itself from now on."""
    if size > 0:
        with open("/proc/self/statm") as file:
            most = int(file.read().split()[5]) * resource.getpagesize() + size
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
