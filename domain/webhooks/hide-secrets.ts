/** Stands where a secret stood. */
const hidden = '••••';

const withoutPadding = (base64: string): string => base64.replace(/=+$/, '');

/** As one writes bytes; base64 without its padding, so that either is found. */
const writings = (bytes: Buffer): string[] => {
  const hex = bytes.toString('hex');
  return [hex, hex.toUpperCase(), withoutPadding(bytes.toString('base64')), bytes.toString('base64url')];
};

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

/** A secret as it is sent, what signs of it (behind `whsec_`), and how a receiver may write either down. */
const formsOf = (secret: string): string[] => {
  const marker = /^whsec_/.exec(secret)?.[0] ?? '';
  const key = secret.slice(marker.length);
  const decoded = marker === '' ? [] : writings(Buffer.from(key, 'base64'));
  const plain = [secret, withoutPadding(key)];
  // Some write a slash with a backslash in JSON.
  const escaped = plain.flatMap((text) => [
    inJson(text),
    inJson(text).replaceAll('/', String.raw`\/`),
    encodeURIComponent(text),
  ]);
  return [...plain, ...escaped, ...writings(Buffer.from(secret)), ...decoded];
};

/** As domain/webhooks/secrets.ts takes them. */
const minSecretLength = 8;
/** Of a secret that is cut off, so many characters are too many. */
const maxLeft = 4;

/** What begins like one of the forms and ends with the text, since the text was cut off there, goes, too. */
const withoutBeginning = (text: string, forms: readonly string[]): string => {
  for (const form of forms) {
    for (let length = form.length - 1; length > maxLeft; length--) {
      if (text.endsWith(form.slice(0, length))) return text.slice(0, -length) + hidden;
    }
  }
  return text;
};

/**
 * A text of a receiver without the secrets that it knows: what it repeats would be kept in plain text, for all who may look
 * at deliveries.
 * @param isCut whether the text goes on, so that a secret may be at its end in part
 */
export const hideSecrets = (
  text: string,
  secrets: readonly string[],
  { isCut = false }: { readonly isCut?: boolean } = {},
): string => {
  // Most answers are.
  if (text.length < minSecretLength) return text;
  const forms = [...new Set(secrets.flatMap(formsOf))]
    .filter(({ length }) => length >= minSecretLength)
    .toSorted((a, b) => b.length - a.length);
  const without = forms.reduce((left, form) => left.replaceAll(form, hidden), text);
  return isCut ? withoutBeginning(without, forms) : without;
};
