/**
 * Returns foreign text on one line: invisible characters are removed, so that it can be stored and shown, and no
 * character is cut in two.
 */
export const oneLineOf = (text: string, max: number): string => {
  const line = text.replaceAll(/[\p{C}\s]+/gu, ' ').trim();
  return line.length > max ? `${line.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…` : line;
};
