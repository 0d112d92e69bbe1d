/**
 * Timestamps of many consecutive lines: the last text is kept, since thousands of lines share a millisecond, and
 * formatting each was a tenth of a worker's work while functions logged all the time.
 */
export const createIsoTimes = (): ((time: number) => string) => {
  let [last, text] = [Number.NaN, ''];
  return (time) => {
    if (time !== last) [last, text] = [time, new Date(time).toISOString()];
    return text;
  };
};
