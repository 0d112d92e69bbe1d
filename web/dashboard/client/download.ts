/** Has the browser save a text as a file. */
export const saveFile = (name: string, parts: readonly string[], type: string): void => {
  const url = URL.createObjectURL(new Blob([...parts], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The download has begun by then; without it the file would stay in memory as long as the page.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
