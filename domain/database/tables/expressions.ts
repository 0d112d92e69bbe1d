/**
 * Whether a text can stand in parentheses as one SQL expression and cannot end them: the server parses what is inside.
 * Read as PostgreSQL reads it with standard_conforming_strings on: '…', E'…', "…", $tag$…$tag$, comments.
 */
const tokens = new RegExp(
  [
    String.raw`(?<![\w$\u0080-\uffff])[eE]'(?:[^'\\]|\\[^]|'')*'`,
    // Not one with escapes that is never closed.
    String.raw`(?<!(?<![\w$\u0080-\uffff])[eE])'(?:[^']|'')*'`,
    `"(?:[^"]|"")*"`,
    String.raw`(?<![\w$\u0080-\uffff])\$([A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$[^]*?\$\1\$`,
  ].join('|'),
  'g',
);

const closing: Readonly<Record<string, string>> = { ')': '(', ']': '[' };

const isBalanced = (bare: string): boolean => {
  const open: string[] = [];
  for (const char of bare) {
    if (char === '(' || char === '[') open.push(char);
    else if (char in closing && open.pop() !== closing[char]) return false;
  }
  return open.length === 0;
};

/** Returns the problem of a name, in words that follow it; null when there is none. */
export const faultOfExpression = (text: string): string | null => {
  // A literal becomes one that is empty: two that stood apart do not meet.
  const bare = text.replaceAll(tokens, ' 0 ');
  if (/['"]/.test(bare)) return 'has a quote that is not closed';
  if (/(?<![\w$\u0080-\uffff])\$[A-Za-z_\u0080-\uffff]*\$/.test(bare)) return 'has a dollar quote that is not closed';
  if (/--|\/\*/.test(bare)) return 'must not hold comments';
  if (bare.includes(';')) return 'must be one expression';
  if (!isBalanced(bare)) return 'has parentheses that do not match';
  return bare.trim() === '' ? 'must not be blank' : null;
};
