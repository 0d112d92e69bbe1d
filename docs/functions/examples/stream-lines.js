/**
 * Reads an answer line by line while it arrives, without keeping all of it.
 *
 * @env API_URL={server}
 * @payload {"path":"/events"}
 * @answer {"lines":3,"total":6}
 */
/** @type {import('plinth/functions').Handler} */
export const handler = async ({ path }, { env }) => {
  const response = await fetch(new URL(path, env.API_URL));
  const text = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (text === undefined) throw new Error('The answer has no body.');
  const seen = { lines: 0, total: 0 };
  const take = (/** @type {string} */ line) => {
    seen.lines += 1;
    seen.total += JSON.parse(line).value;
  };
  let rest = '';
  for (;;) {
    const { done, value } = await text.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    lines.forEach(take);
  }
  if (rest !== '') take(rest);
  return seen;
};
