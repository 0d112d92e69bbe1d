import type { QueryKey } from '@tanstack/react-query';
import { useState } from 'react';
import { useChange } from './change.ts';
import { isConflict } from './faults.ts';

interface Versioned {
  readonly version: number;
}

interface Options<Thing extends Versioned, Body> {
  /** Writes a change of the thing in that version. */
  readonly write: (body: Body, version: number) => Promise<Thing>;
  readonly read: () => Promise<Thing>;
  /** The beginnings of the keys of what is stale afterwards. */
  readonly stale: readonly QueryKey[];
  readonly onDone: (now: Thing) => void;
}

export interface VersionedEdit<Thing, Body> {
  /** As it was when the edit began. */
  readonly base: Thing;
  /** As somebody else has made it meanwhile; null: nobody has, as far as is known. */
  readonly theirs: Thing | null;
  /** Another failure than that. */
  readonly error: Error | null;
  readonly isPending: boolean;
  readonly save: (body: Body) => void;
  /** Saves over what somebody else has made. */
  readonly saveOver: (body: Body) => void;
  /** Begins anew with what is there now. */
  readonly takeTheirs: () => void;
}

/** An edit that is saved only in the version that it began with, so that it overwrites no change of a colleague. */
export const useVersioned = <Thing extends Versioned, Body>(
  first: Thing,
  { write, read, stale, onDone }: Options<Thing, Body>,
): VersionedEdit<Thing, Body> => {
  const [base, setBase] = useState(first);
  const [theirs, setTheirs] = useState<Thing | null>(null);
  const begin = (now: Thing): void => {
    setBase(now);
    setTheirs(null);
  };
  const change = useChange(
    ({ body, version }: { readonly body: Body; readonly version: number }) => write(body, version),
    {
      stale,
      onDone: (now) => {
        begin(now);
        onDone(now);
      },
    },
  );
  // Without an answer the refusal itself is shown.
  const readTheirs = async (): Promise<void> => setTheirs(await read().catch(() => null));
  const save = (body: Body, version: number): void =>
    change.mutate({ body, version }, { onError: (error) => void (isConflict(error) && readTheirs()) });
  return {
    base,
    theirs,
    error: theirs === null ? change.error : null,
    isPending: change.isPending,
    save: (body) => save(body, base.version),
    saveOver: (body) => save(body, (theirs ?? base).version),
    takeTheirs: () => {
      if (theirs !== null) begin(theirs);
      change.reset();
    },
  };
};
