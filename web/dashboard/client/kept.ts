import { themeKey } from './theme.ts';

/*
 * Texts that are kept in the browser until they are saved (SQL, code, payloads, prompts, changes of rows) are of one
 * person. A session that ends by itself leaves them for the same person to come back to.
 */

const ownerKey = 'plinth:owner';

/** Deletes what is kept in the browser, but for the theme. */
export const forgetKept = (): void => {
  for (const key of Object.keys(localStorage)) if (key !== themeKey) localStorage.removeItem(key);
  sessionStorage.clear();
};

/** To be called as soon as it is known who is signed in: what somebody else has left is deleted. */
export const keepFor = (userId: string): void => {
  try {
    const owner = localStorage.getItem(ownerKey);
    if (owner === userId) return;
    if (owner !== null) forgetKept();
    localStorage.setItem(ownerKey, userId);
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
};

/** Calls when another window has signed out, or in as somebody else: what this one shows is not that person's. */
export const onOtherOwner = (listener: () => void): (() => void) => {
  const onChange = ({ key, oldValue, newValue }: StorageEvent): void => {
    if (key === ownerKey && oldValue !== null && newValue !== oldValue) listener();
  };
  globalThis.addEventListener('storage', onChange);
  return () => globalThis.removeEventListener('storage', onChange);
};
