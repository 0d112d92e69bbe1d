/** The input of a kernel filter: the number of a call, its architecture, its arguments. */
export interface Call {
  readonly number: number;
  readonly architecture: number;
  readonly args?: readonly number[];
}

const dataOf = ({ number, architecture, args = [] }: Call): Buffer => {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number, 0);
  data.writeUInt32LE(architecture, 4);
  for (const [index, arg] of args.entries()) data.writeUInt32LE(arg, 16 + 8 * index);
  return data;
};

const jumps: Readonly<Record<number, (value: number, operand: number) => boolean>> = {
  0x15: (value, operand) => value === operand,
  0x35: (value, operand) => value >= operand,
  0x45: (value, operand) => (value & operand) !== 0,
};

/**
 * Runs a filter as the kernel does: the few instructions of classic BPF that a seccomp filter of ours has.
 * @returns what it answers
 * @throws when it has an instruction that is none of these, or runs past its end
 */
export function runFilter(program: Buffer, call: Call): number {
  const data = dataOf(call);
  let value = 0;
  for (let at = 0; at < program.length; at += 8) {
    const [code, operand] = [program.readUInt16LE(at), program.readUInt32LE(at + 4)];
    if (code === 0x06) return operand;
    const jump = jumps[code];
    if (code === 0x20) value = data.readUInt32LE(operand);
    else if (jump === undefined) throw new Error(`no such instruction: ${code.toString(16)}`);
    else at += 8 * program.readUInt8(at + (jump(value, operand) ? 2 : 3));
  }
  throw new Error('the filter has no end');
}
