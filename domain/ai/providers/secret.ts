// A shorter piece of a key is found in innocent words, and does not help anybody to guess the rest.
const maxHarmlessLength = 7;
// Shorter ones are no keys.
const minSecretLength = 6;

/** One character as JSON or a URL may write it; several backslashes come of JSON within JSON. */
const written = /\\+u00([\da-f]{2})|%([\da-f]{2})|\\+([^\\])|[^]/gi;

interface Character {
  readonly meant: string;
  /** As it stands in the text. */
  readonly whole: string;
}

const charactersOf = (text: string): readonly Character[] =>
  Array.from(text.matchAll(written), ([whole, unicode, percent, escaped]) => {
    const code = unicode ?? percent;
    return { whole, meant: code === undefined ? (escaped ?? whole) : String.fromCharCode(Number.parseInt(code, 16)) };
  });

const meaningOf = (characters: readonly Character[]): string => characters.map(({ meant }) => meant).join('');

/** In base64 at each of the three places where it may begin, such as after `user:`; in both alphabets. */
const base64Forms = (secret: string): readonly string[] =>
  [0, 1, 2].flatMap((before) => {
    const packed = Buffer.from('\0'.repeat(before) + secret);
    return [packed.toString('base64'), packed.toString('base64url')];
  });

const piecesOf = (secret: string, length: number): ReadonlySet<string> => {
  const pieces = new Set<string>();
  for (const form of [secret, meaningOf(charactersOf(secret)), ...base64Forms(secret)]) {
    for (let at = 0; at + length <= form.length; at += 1) pieces.add(form.slice(at, at + length));
  }
  return pieces;
};

/** Takes a key out of a text; the text is short: what a provider says of an error. */
export type SecretFilter = (text: string) => string;

interface Pieces {
  readonly all: ReadonlySet<string>;
  readonly length: number;
}

const withoutPieces = (text: string, { all, length }: Pieces): string => {
  const characters = charactersOf(text);
  const meant = meaningOf(characters);
  let [clean, hiddenTo] = ['', 0];
  characters.forEach(({ whole }, at) => {
    if (all.has(meant.slice(at, at + length))) {
      if (hiddenTo <= at) clean += '[key]';
      hiddenTo = at + length;
    }
    if (hiddenTo <= at) clean += whole;
  });
  return clean;
};

/**
 * Gives texts without the key and without any piece of eight of its characters, however the provider writes it: plain, with
 * escapes of JSON or URLs, or in base64. To be kept for as long as the key: the pieces cost more than the texts.
 */
export const createSecretFilter = (secret: string): SecretFilter => {
  if (secret.length < minSecretLength) return (text) => text;
  const length = Math.min(secret.length, maxHarmlessLength + 1);
  const pieces: Pieces = { all: piecesOf(secret, length), length };
  return (text) => withoutPieces(text, pieces);
};
