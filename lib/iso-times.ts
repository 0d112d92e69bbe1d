/**
 * Time stamps of many lines one after the other: the text of the last is kept, since thousands of lines have the same
 * millisecond, and making each text anew was a tenth of what a worker did while functions logged all the time.
 */
export const createIsoTimes = (): ((time: number) => string) => {
  let [last, text] = [Number.NaN, ''];
  return (time) => {
    if (time !== last) [last, text] = [time, new Date(time).toISOString()];
    return text;
  };
};
