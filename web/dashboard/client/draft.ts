import { useState } from 'react';

const read = (key: string): string | null => {
  try {
    return globalThis.localStorage.getItem(key);
  } catch {
    return null;
  }
};

const write = (key: string, text: string | null): void => {
  try {
    if (text === null) globalThis.localStorage.removeItem(key);
    else globalThis.localStorage.setItem(key, text);
  } catch {
    // A browser that keeps nothing still shows what is typed.
  }
};

export interface Draft {
  readonly text: string;
  /** It differs from what is saved. */
  readonly isChanged: boolean;
  readonly change: (text: string) => void;
  /** Forgets what was typed: it is given up. */
  readonly forget: () => void;
  /** Forgets this text, which was saved; what was typed since stays. */
  readonly forgetSaved: (sent: string) => void;
}

/**
 * A text that somebody edits. What was typed is kept in the browser at each key until it is saved.
 * @param name of what is edited, for all projects
 * @param saved the text as the server has it
 */
export const useDraft = (name: string, saved: string): Draft => {
  const key = `plinth:draft:${name}`;
  const [state, setState] = useState({ key, text: read(key) });
  const typed = state.key === key ? state.text : read(key);
  const set = (text: string | null): void => {
    write(key, text);
    setState({ key, text });
  };
  return {
    text: typed ?? saved,
    isChanged: typed !== null && typed !== saved,
    change: (text) => set(text === saved ? null : text),
    forget: () => set(null),
    forgetSaved: (sent) => {
      if (read(key) === sent) write(key, null);
      setState((now) => (now.key === key && now.text === sent ? { key, text: null } : now));
    },
  };
};
