const name = 'announced';

/** Says in words what an action did, for those who do not see it. */
export const announce = (text: string): void => void globalThis.dispatchEvent(new CustomEvent(name, { detail: text }));

/** Calls with each text that is announced; returns what ends it. */
export const onAnnounced = (listener: (text: string) => void): (() => void) => {
  const hear = (event: Event): void => listener((event as CustomEvent<string>).detail);
  globalThis.addEventListener(name, hear);
  return () => globalThis.removeEventListener(name, hear);
};
