/** Bytes that one holder keeps in memory, counted against its owner and the process. */
export interface ReservedBytes {
  readonly bytes: number;
  /** @returns false when that many more are not granted; nothing is counted then */
  readonly grow: (bytes: number) => boolean;
  readonly shrink: (bytes: number) => void;
  /** Gives everything back; may be called more than once. */
  readonly release: () => void;
}

export interface ByteBudget {
  /**
   * @param group whose owners share what one party may take of the whole, such as an organization; left out: the owner
   */
  readonly reserve: (owner: string, group?: string) => ReservedBytes;
  /** Bytes that one owner holds, and all of them together. */
  readonly reservedBy: (owner: string) => number;
  readonly reserved: () => number;
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

const createUses = () => {
  const uses = new Map<string, Use>();
  return {
    enter: (name: string): Use => {
      const use = uses.get(name) ?? { bytes: 0, holders: 0 };
      uses.set(name, use);
      use.holders += 1;
      return use;
    },
    leave: (name: string, use: Use): void => {
      use.holders -= 1;
      if (use.holders === 0) uses.delete(name);
    },
    bytesOf: (name: string): number => uses.get(name)?.bytes ?? 0,
  };
};

/**
 * A memory budget that many owners share. An owner may reserve `perOwner`, and the owners of one group together never
 * more than what is still free: the dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998). N greedy
 * groups get one part in N + 1 each and leave one part free, so the next group finds room, which a fixed limit per
 * owner would not give. Groups keep a party with many owners from counting as many.
 */
export const createByteBudget = ({ perOwner, total }: ByteBudgetOptions): ByteBudget => {
  const [owners, groups] = [createUses(), createUses()];
  let reserved = 0;

  const reserveFor = (owner: string, group: string): ReservedBytes => {
    const [ofOwner, ofGroup] = [owners.enter(owner), groups.enter(group)];
    const isGranted = (by: number): boolean =>
      ofOwner.bytes + by <= perOwner && ofGroup.bytes + by <= total - reserved - by;
    const add = (by: number): void => {
      ofOwner.bytes += by;
      ofGroup.bytes += by;
      reserved += by;
    };
    let [bytes, released] = [0, false];
    const shrink = (by: number): void => {
      const less = Math.min(by, bytes);
      bytes -= less;
      add(-less);
    };
    return {
      get bytes() {
        return bytes;
      },
      grow: (by) => {
        if (released || !isGranted(by)) return false;
        bytes += by;
        add(by);
        return true;
      },
      shrink,
      release: () => {
        if (released) return;
        released = true;
        shrink(bytes);
        owners.leave(owner, ofOwner);
        groups.leave(group, ofGroup);
      },
    };
  };

  return {
    reserve: (owner, group = owner) => reserveFor(owner, group),
    reservedBy: owners.bytesOf,
    reserved: () => reserved,
  };
};
