import { useRef, useState } from 'react';
import type { Operations } from '../../client/types.ts';

export type Fn = Operations['GET /projects/{project_id}/functions/{id}']['answer'];

/** The texts of a function by their paths; a function of one file has no path, which is written as ''. */
export type Source = Readonly<Record<string, string>>;

export const sourceOf = ({ code, files }: { readonly code: string | null; readonly files: Fn['files'] }): Source =>
  files ?? { '': code ?? '' };

export const isOneFile = (source: Source): boolean => Object.hasOwn(source, '');

/** The path that the one file gets when a second one is added. */
export const usualEntry = (language: Fn['language']): string => (language === 'python' ? 'main.py' : 'index.ts');

const isSame = (a: Source, b: Source): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(a).every(([path, text]) => b[path] === text);

/** The fields of a request that stand for the source. */
export const bodyOf = (source: Source, entrypoint: string | null) => {
  if (isOneFile(source)) return { code: source[''] ?? '' };
  const named = entrypoint !== null && Object.hasOwn(source, entrypoint) ? { entrypoint } : {};
  return { files: { ...source }, ...named };
};

interface Kept {
  /** The version that was changed. */
  readonly version: number;
  readonly source: Source;
}

const keptOf = (name: string): Kept | null => {
  try {
    return JSON.parse(localStorage.getItem(name) ?? 'null') as Kept | null;
  } catch {
    return null;
  }
};

export interface Draft {
  readonly source: Source;
  readonly isChanged: boolean;
  /** The version that the draft began with, where another one has been deployed meanwhile. */
  readonly behind: number | null;
  /** False: the browser has no room, so the draft lives in this page only. */
  readonly isKept: boolean;
  readonly change: (source: Source) => void;
  readonly discard: () => void;
  /** To be called with what was deployed as which version: what was typed meanwhile stays a draft, based on that. */
  readonly settle: (sent: Source, version: number) => void;
}

/** The draft: typed code that is not deployed. It stays in this browser until it is deployed or discarded. */
export const useDraft = (fn: Fn): Draft => {
  const name = `draft:${fn.id}`;
  const deployed = sourceOf(fn);
  const [kept, setKept] = useState<Kept | null>(() => keptOf(name));
  const [isKept, setIsKept] = useState(true);
  const source = kept?.source ?? deployed;
  const isChanged = !isSame(source, deployed);
  const keep = (draft: Kept): void => {
    setKept(draft);
    try {
      localStorage.setItem(name, JSON.stringify(draft));
      setIsKept(true);
    } catch {
      setIsKept(false);
    }
  };
  const discard = (): void => {
    localStorage.removeItem(name);
    setKept(null);
  };
  const latest = useRef(source);
  latest.current = source;
  return {
    source,
    isChanged,
    isKept,
    behind: isChanged && kept !== null && kept.version !== fn.version ? kept.version : null,
    // A draft that has become what is deployed again begins anew with the next change.
    change: (next) => keep({ version: isChanged ? (kept?.version ?? fn.version) : fn.version, source: next }),
    discard,
    settle: (sent, version) => {
      if (isSame(latest.current, sent)) discard();
      else keep({ version, source: latest.current });
    },
  };
};
