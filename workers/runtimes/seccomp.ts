import { type Numbers, denied, extendedAttributes, sifted } from './seccomp-syscalls.ts';

/**
 * The filter of a guest's system calls, in the kernel's own language (classic BPF), made for `bwrap --seccomp`. It
 * lists refused calls, not allowed ones: a new Node or libc that makes new calls goes on working, and the list has the
 * calls by which namespaces were escaped, that take memory which nobody counts, and that no guest needs.
 */

export type Architecture = keyof Numbers;

/** `AUDIT_ARCH_*` of <linux/audit.h>. */
const auditOf = { x64: 0xc000003e, arm64: 0xc00000b7 } as const satisfies Record<Architecture, number>;

/** Opcodes of classic BPF that a filter needs, and what it may answer (<linux/filter.h>, <linux/seccomp.h>). */
const load = 0x20;
const jumpEqual = 0x15;
const jumpAtLeast = 0x35;
const jumpAnyBit = 0x45;
const answer = 0x06;
const allow = 0x7fff0000;
const kill = 0x80000000;
const fail = (errno: number): number => 0x00050000 + errno;

const errors = { EPERM: 1, ENOSYS: 38, EPROTONOSUPPORT: 93, EOPNOTSUPP: 95, EAFNOSUPPORT: 97 } as const;

/** Where `struct seccomp_data` has what is asked; of an argument the lower half, on machines with little ends. */
const numberAt = 0;
const architectureAt = 4;
const argumentAt = (index: number): number => 16 + 8 * index;

/** Calls of the 32-bit interface of x86-64 have this bit. */
const x32Bit = 0x40000000;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const namespaceFlags = 0x7e020000;
/**
 * TIOCSTI and TIOCLINUX: to type into the terminal of whoever started us. FS_IOC_SETFLAGS, its form of 32 bits and
 * FS_IOC_FSSETXATTR: attributes of files, which outlive the wiping of a folder.
 */
const refusedCommands = [0x5412, 0x541c, 0x40086602, 0x40046602, 0x401c5820];
/** AF_UNIX, AF_INET, AF_INET6: others are drivers that nobody here has a use for. */
const families = [1, 2, 10];
/** None named, ICMP (or AF_UNIX by its name), TCP, UDP; not SCTP, DCCP, MPTCP and what else a kernel may load. */
const protocols = [0, 1, 6, 17];

const socketLevel = 1; // SOL_SOCKET
/** SO_SNDBUF, SO_RCVBUF and their FORCE forms: what lies in sockets is memory that nobody counts. */
const bufferSizes = [7, 8, 32, 33];

/** One instruction: opcode, how far to jump when true and when false, operand. */
type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, operand: number];

const ret = (value: number): Instruction => [answer, 0, 0, value];

/** Runs the rule when the call is this one; rules end in an answer. */
function rule(number: number | null, instructions: readonly Instruction[]): Instruction[] {
  if (number === null) return [];
  return [[jumpEqual, 0, instructions.length, number], ...instructions];
}

/** Goes on to what follows when the loaded value is one of these; else it is this error. */
const oneOf = (values: readonly number[], errno: number): Instruction[] => [
  ...values.map((value, index): Instruction => [jumpEqual, values.length - index, 0, value]),
  ret(fail(errno)),
];

const socketRule: readonly Instruction[] = [
  [load, 0, 0, argumentAt(0)],
  ...oneOf(families, errors.EAFNOSUPPORT),
  [load, 0, 0, argumentAt(2)],
  ...oneOf(protocols, errors.EPROTONOSUPPORT),
  ret(allow),
];

const siftedRules = (architecture: Architecture): Instruction[] => {
  const of = (name: keyof typeof sifted, instructions: readonly Instruction[]): Instruction[] =>
    rule(sifted[name][architecture], instructions);
  return [
    ...of('clone', [
      [load, 0, 0, argumentAt(0)],
      [jumpAnyBit, 0, 1, namespaceFlags],
      ret(fail(errors.EPERM)),
      ret(allow),
    ]),
    // Its flags lie in memory, where a filter cannot read. Without it libc falls back to `clone`.
    ...of('clone3', [ret(fail(errors.ENOSYS))]),
    ...of('socket', socketRule),
    ...of('socketpair', socketRule),
    // A hint, as far as programs know: it is taken and nothing comes of it.
    ...of('setsockopt', [
      [load, 0, 0, argumentAt(1)],
      [jumpEqual, 1, 0, socketLevel],
      ret(allow),
      [load, 0, 0, argumentAt(2)],
      ...bufferSizes.flatMap((option): Instruction[] => [[jumpEqual, 0, 1, option], ret(fail(0))]),
      ret(allow),
    ]),
    // It seems to succeed. A new session would be weighed by the scheduler as if it were as important as the platform.
    ...of('setsid', [ret(fail(0))]),
    ...of('ioctl', [
      [load, 0, 0, argumentAt(1)],
      ...refusedCommands.flatMap((command): Instruction[] => [[jumpEqual, 0, 1, command], ret(fail(errors.EPERM))]),
      ret(allow),
    ]),
  ];
};

/** Calls of another architecture have other numbers: they would walk past every rule. */
const rightInterface = (architecture: Architecture): Instruction[] => [
  [load, 0, 0, architectureAt],
  [jumpEqual, 1, 0, auditOf[architecture]],
  ret(kill),
  [load, 0, 0, numberAt],
  ...(architecture === 'x64' ? ([[jumpAtLeast, 0, 1, x32Bit], ret(kill)] as const) : []),
];

const isArchitecture = (name: string): name is Architecture => Object.hasOwn(auditOf, name);

/**
 * The filter for guests on a machine of this architecture, as `struct sock_filter[]`.
 * @param architecture as `process.arch` names it
 * @returns null where we have no table of its calls: then there is no filter
 */
export function seccompFilter(architecture: string = process.arch): Buffer | null {
  if (!isArchitecture(architecture)) return null;
  const refused = Object.values(denied).flatMap((numbers) => rule(numbers[architecture], [ret(fail(errors.EPERM))]));
  const unsupported = Object.values(extendedAttributes).flatMap((numbers) =>
    rule(numbers[architecture], [ret(fail(errors.EOPNOTSUPP))]),
  );
  const rules = [...siftedRules(architecture), ...refused, ...unsupported];
  return encoded([...rightInterface(architecture), ...rules, ret(allow)]);
}

const instructionBytes = 8;

function encoded(instructions: readonly Instruction[]): Buffer {
  const program = Buffer.alloc(instructions.length * instructionBytes);
  for (const [index, [code, ifTrue, ifFalse, operand]] of instructions.entries()) {
    const at = index * instructionBytes;
    program.writeUInt16LE(code, at);
    program.writeUInt8(ifTrue, at + 2);
    program.writeUInt8(ifFalse, at + 3);
    program.writeUInt32LE(operand, at + 4);
  }
  return program;
}
