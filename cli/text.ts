/** Control characters but for tab and line feed: a terminal would take some of them for commands. */
// oxlint-disable-next-line no-control-regex -- control characters are what it is about
const control = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g;

/** Characters that turn the direction of what follows, so that a text reads other than it is. */
const direction = /[\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;

/** A text of somebody else as a terminal may have it: what could steer it is written as an escape. */
export const clean = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .replace(control, (character) => `\\x${(character.codePointAt(0) ?? 0).toString(16).padStart(2, '0')}`)
    .replace(direction, (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16)}`);

/** The same on one line. */
export const cleanLine = (text: string): string => clean(text).replaceAll('\n', '\\n').replaceAll('\t', ' ');

// JSON leaves these as they are.
// oxlint-disable-next-line no-control-regex -- control characters are what it is about
const leftByJson = /[\u007F-\u009F\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;

/** JSON that no terminal takes for commands, and that reads back as the same value. */
export const jsonText = (value: unknown, indent = 0): string =>
  (JSON.stringify(value, undefined, indent) ?? 'null').replace(
    leftByJson,
    (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );

const steps = ['B', 'KB', 'MB', 'GB', 'TB'] as const;

/** `1536` → `1.5 KB`. */
export const bytesText = (bytes: number): string => {
  const step = Math.min(steps.length - 1, bytes < 1 ? 0 : Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** step;
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${steps[step] ?? 'B'}`;
};

/** `75` → `1:15`. */
export const secondsText = (seconds: number): string => {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  const rest = String(whole % 60).padStart(2, '0');
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
};

/** The number of steps (insert, delete, change of a letter) from one word to the other. */
const distance = (from: string, to: string): number => {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
};

/** The name that was probably meant. */
const nearest = (name: string, names: readonly string[]): string | undefined =>
  names
    .map((one) => ({ one, steps: distance(name.toLowerCase(), one.toLowerCase()) }))
    .filter(({ one, steps: far }) => far <= Math.max(1, Math.floor(Math.min(one.length, name.length) / 3)))
    .toSorted((a, b) => a.steps - b.steps)[0]?.one;

/** ` Did you mean x?`, or nothing. */
export const didYouMean = (name: string, names: readonly string[]): string => {
  const one = nearest(name, names);
  return one === undefined ? '' : ` Did you mean ${cleanLine(one)}?`;
};
