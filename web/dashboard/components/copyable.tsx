import { useState } from 'react';
import { copyText } from '../client/clipboard.ts';

const shownMs = 1500;

/** A text that is meant to be copied, with the button that does it. */
export const Copyable = ({ label, text }: { readonly label: string; readonly text: string }) => {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await copyText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), shownMs);
  };
  return (
    <p className="copyable">
      <span>{label}</span>
      <code>{text}</code>
      <button type="button" onClick={() => void copy()} aria-label={`Copy ${label}`}>
        {copied ? 'Copied' : 'Copy'}
      </button>
    </p>
  );
};
