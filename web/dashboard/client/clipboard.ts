/** Copies by a selection, as browsers do it also where they give pages no clipboard. */
const copySelected = (text: string): void => {
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'to-copy';
  // Within an open dialog nothing outside of it can be selected.
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
};

/** Puts a text into the clipboard. On a plain HTTP address the page has no `navigator.clipboard`. */
export const copyText = async (text: string): Promise<void> => {
  const focused = document.activeElement;
  if ('clipboard' in navigator) await navigator.clipboard.writeText(text);
  else copySelected(text);
  if (focused instanceof HTMLElement) focused.focus();
};
