/** Bytes that one holder keeps in memory, counted against its owner and the process. */
export interface HeldBytes {
  readonly bytes: number;
  /** @returns false when that many more are not granted; nothing is counted then */
  readonly grow: (bytes: number) => boolean;
  readonly shrink: (bytes: number) => void;
  /** Gives everything back; may be called more than once. */
  readonly release: () => void;
}

export interface ByteBudget {
  readonly hold: (owner: string) => HeldBytes;
  /** Bytes that one owner holds, and all of them together. */
  readonly heldBy: (owner: string) => number;
  readonly held: () => number;
}

export interface ByteBudgetOptions {
  /** Bytes. */
  readonly perOwner: number;
  /** Bytes of all owners together. */
  readonly total: number;
}

interface Use {
  bytes: number;
  holders: number;
}

/**
 * A budget of memory that many owners share. An owner may hold `perOwner`, but never more than what is still free: the
 * dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998). N greedy owners get one part in N + 1 each and
 * leave one part free, so whoever comes next finds room, which a fixed limit per owner would not give.
 */
export const createByteBudget = ({ perOwner, total }: ByteBudgetOptions): ByteBudget => {
  const uses = new Map<string, Use>();
  let held = 0;

  const isGranted = (use: Use, bytes: number): boolean => use.bytes + bytes <= Math.min(perOwner, total - held - bytes);

  const add = (use: Use, bytes: number): void => {
    use.bytes += bytes;
    held += bytes;
  };

  const holdFor = (owner: string, use: Use): HeldBytes => {
    let [bytes, released] = [0, false];
    const shrink = (by: number): void => {
      const less = Math.min(by, bytes);
      bytes -= less;
      add(use, -less);
    };
    return {
      get bytes() {
        return bytes;
      },
      grow: (by) => {
        if (released || !isGranted(use, by)) return false;
        bytes += by;
        add(use, by);
        return true;
      },
      shrink,
      release: () => {
        if (released) return;
        released = true;
        shrink(bytes);
        use.holders -= 1;
        if (use.holders === 0) uses.delete(owner);
      },
    };
  };

  return {
    hold: (owner) => {
      const use = uses.get(owner) ?? { bytes: 0, holders: 0 };
      uses.set(owner, use);
      use.holders += 1;
      return holdFor(owner, use);
    },
    heldBy: (owner) => uses.get(owner)?.bytes ?? 0,
    held: () => held,
  };
};
