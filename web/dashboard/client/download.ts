/** Has the browser save texts, or bytes that it holds, as one file. */
export const saveFile = (name: string, parts: readonly (string | Blob)[], type: string): void => {
  const url = URL.createObjectURL(new Blob([...parts], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The download has begun by then; without it the file would stay in memory as long as the page.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
