// Nothing is seen of it, and nothing around it is a command any more.
const joint = '\u200B';

/**
 * Breaks up what would call people or close a block of code: `@everyone`, `<!channel>`, `<@U1>`, three backticks. Neither
 * chat has an escape for all of them that it honours everywhere.
 */
export const withoutCalls = (text: string): string =>
  text
    .replaceAll(/@(?=everyone|here|channel|group)/gi, `@${joint}`)
    .replaceAll(/<(?=[@#!/:])/g, `<${joint}`)
    .replaceAll(/`(?=`)/g, `\`${joint}`);

/** At most so many UTF-16 units, no character cut in two. */
export const shortened = (text: string, max: number): string => {
  if (text.length <= max) return text;
  const cut = text.slice(0, max - 1);
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
};
