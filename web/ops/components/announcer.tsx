import { useEffect, useState } from 'react';
import { onAnnounced } from '../client/announce.ts';

/** Has screen readers read what is announced; the same text twice, when it is announced twice. */
export const Announcer = () => {
  const [{ text, count }, setAnnounced] = useState({ text: '', count: 0 });
  useEffect(() => onAnnounced((next) => setAnnounced((present) => ({ text: next, count: present.count + 1 }))), []);
  return (
    <p className="unseen" aria-live="polite">
      <span key={count}>{text}</span>
    </p>
  );
};
