const units = ['bytes', 'KB', 'MB', 'GB', 'TB'] as const;

/** A size as people read it, in steps of 1,024: 1536 is "1.5 KB". */
export const bytesText = (bytes: number): string => {
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 1024 ** step;
  return `${value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 })} ${units[step]}`;
};
