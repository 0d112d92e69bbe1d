/** A time as a person reads it, or a dash where there is none. */
export const whenOf = (at: string | null | undefined): string =>
  at === null || at === undefined ? '–' : new Date(at).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
