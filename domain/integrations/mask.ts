const dots = '••••';
// The hidden part of a secret has at least so many characters.
const minHidden = 12;
const shown = 4;

// Prefixes of model keys.
const modelPrefix = /^(?:sk-(?:ant-|proj-|svcacct-)?|xai-|AIza)/;

/** The prefix of a kind of secret, which reveals nothing of it: `sk_live_`, `whsec_`, `https://hooks.slack.com/`. */
const prefixOf = (secret: string): string =>
  (/^https?:\/\//i.test(secret) ? URL.parse(secret)?.origin.concat('/') : undefined) ??
  /^[a-z]{2,6}_(?:[a-z]{3,5}_)?/.exec(secret)?.[0] ??
  modelPrefix.exec(secret)?.[0] ??
  '';

/** Masks a secret for answers: its prefix and its last four characters; of a short one nothing. */
export const maskSecret = (secret: string): string => {
  const prefix = prefixOf(secret);
  if (secret.length - prefix.length - shown < minHidden) return dots.repeat(2);
  return `${prefix}${dots}${secret.slice(-shown)}`;
};

/** Whether somebody sent back what an answer showed: no secret has such characters. */
export const isMasked = (value: unknown): value is string => typeof value === 'string' && value.includes('•');
