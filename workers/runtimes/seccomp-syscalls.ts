/** The numbers of one system call; null where the machine never had it. */
export interface Numbers {
  readonly x64: number | null;
  readonly arm64: number | null;
}

const both = (x64: number | null, arm64: number | null): Numbers => ({ x64, arm64 });
/** Calls that came after Linux 5.0 have one number everywhere. */
const same = (number: number): Numbers => both(number, number);

/** Looking into, or at, other processes, and changing their memory. */
const otherProcesses = {
  ptrace: both(101, 117),
  process_vm_readv: both(310, 270),
  process_vm_writev: both(311, 271),
  process_madvise: same(440),
  process_mrelease: same(448),
  pidfd_getfd: same(438),
  kcmp: both(312, 272),
  lookup_dcookie: both(212, 18),
};

/** Large, young parts of the kernel in which holes are found again and again, and which no guest needs. */
const largeSurfaces = {
  io_uring_setup: same(425),
  io_uring_enter: same(426),
  io_uring_register: same(427),
  bpf: both(321, 280),
  userfaultfd: both(323, 282),
  perf_event_open: both(298, 241),
  fanotify_init: both(300, 262),
  fanotify_mark: both(301, 263),
  add_key: both(248, 217),
  request_key: both(249, 218),
  keyctl: both(250, 219),
  vmsplice: both(278, 75),
  seccomp: both(317, 277),
};

/** Memory that belongs to no process that a watchdog could measure, or whose place the kernel decides. */
const uncountedMemory = {
  memfd_create: both(319, 279),
  memfd_secret: same(447),
  shmget: both(29, 194),
  shmat: both(30, 196),
  shmctl: both(31, 195),
  msgget: both(68, 186),
  semget: both(64, 190),
  mq_open: both(240, 180),
  remap_file_pages: both(216, 234),
  mbind: both(237, 235),
  set_mempolicy: both(238, 237),
  set_mempolicy_home_node: same(450),
  get_mempolicy: both(239, 236),
  migrate_pages: both(256, 238),
  move_pages: both(279, 239),
};

const namespacesAndMounts = {
  setns: both(308, 268),
  unshare: both(272, 97),
  mount: both(165, 40),
  umount2: both(166, 39),
  mount_setattr: same(442),
  move_mount: same(429),
  open_tree: same(428),
  open_tree_attr: same(467),
  fsopen: same(430),
  fsconfig: same(431),
  fsmount: same(432),
  fspick: same(433),
  statmount: same(457),
  listmount: same(458),
  chroot: both(161, 51),
  pivot_root: both(155, 41),
};

/** Files that are more than files, and names for files that lead past folders. */
const filesPastFolders = {
  mknod: both(133, null),
  mknodat: both(259, 33),
  name_to_handle_at: both(303, 264),
  open_by_handle_at: both(304, 265),
  quotactl: both(179, 60),
  quotactl_fd: same(443),
  sysfs: both(139, null),
  ustat: both(136, null),
  file_setattr: same(469),
};

/** The machine itself: its clock, its modules, its name, its end. */
const theMachine = {
  reboot: both(169, 142),
  kexec_load: both(246, 104),
  kexec_file_load: both(320, 294),
  init_module: both(175, 105),
  finit_module: both(313, 273),
  delete_module: both(176, 106),
  create_module: both(174, null),
  query_module: both(178, null),
  get_kernel_syms: both(177, null),
  swapon: both(167, 224),
  swapoff: both(168, 225),
  acct: both(163, 89),
  syslog: both(103, 116),
  vhangup: both(153, 58),
  settimeofday: both(164, 170),
  clock_settime: both(227, 112),
  clock_adjtime: both(305, 266),
  adjtimex: both(159, 171),
  sethostname: both(170, 161),
  setdomainname: both(171, 162),
  personality: both(135, 92),
  modify_ldt: both(154, null),
  iopl: both(172, null),
  ioperm: both(173, null),
  nfsservctl: both(180, 42),
  uselib: both(134, null),
  _sysctl: both(156, null),
};

/**
 * Extended attributes of a file: they would outlive the wiping of a folder. Refused as by a file system without them,
 * which is what programs that copy files expect.
 */
export const extendedAttributes: Readonly<Record<string, Numbers>> = {
  setxattr: both(188, 5),
  lsetxattr: both(189, 6),
  fsetxattr: both(190, 7),
  getxattr: both(191, 8),
  lgetxattr: both(192, 9),
  fgetxattr: both(193, 10),
  listxattr: both(194, 11),
  llistxattr: both(195, 12),
  flistxattr: both(196, 13),
  removexattr: both(197, 14),
  lremovexattr: both(198, 15),
  fremovexattr: both(199, 16),
  setxattrat: same(463),
  getxattrat: same(464),
  listxattrat: same(465),
  removexattrat: same(466),
};

/** System calls that no guest may make, whatever their arguments. The answer is EPERM. */
export const denied: Readonly<Record<string, Numbers>> = {
  ...otherProcesses,
  ...largeSurfaces,
  ...uncountedMemory,
  ...namespacesAndMounts,
  ...filesPastFolders,
  ...theMachine,
};

/** Calls of which only some are refused. */
export const sifted = {
  clone: both(56, 220),
  clone3: same(435),
  socket: both(41, 198),
  socketpair: both(53, 199),
  setsockopt: both(54, 208),
  ioctl: both(16, 29),
  setsid: both(112, 157),
} as const satisfies Readonly<Record<string, Numbers>>;
