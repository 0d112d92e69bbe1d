import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, Suspense, lazy, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../client/api.ts';
import { Icon, Sign } from './icon.tsx';

const Palette = lazy(async () => ({ default: (await import('./palette.tsx')).Palette }));
const KeysDialog = lazy(async () => ({ default: (await import('./palette.tsx')).KeysDialog }));

type Opened = 'palette' | 'keys' | null;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null;

/** The dialogs that open by keys everywhere: the search for everything, and the list of keys. */
const useKeys = (open: (what: Opened) => void): void => {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const isFind = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey;
      if (isFind) open('palette');
      else if (event.key === '?' && !isTyping(event.target)) open('keys');
      else return;
      event.preventDefault();
    };
    globalThis.addEventListener('keydown', onKey);
    return () => globalThis.removeEventListener('keydown', onKey);
  }, [open]);
};

/** The bar on top, and the page below it. */
export const Shell = ({ email, children }: { readonly email: string; readonly children: ReactNode }) => {
  const queries = useQueryClient();
  const [opened, setOpened] = useState<Opened>(null);
  useKeys(setOpened);
  const signOut = async (): Promise<void> => {
    await call('DELETE /dashboard/session', {});
    queries.clear();
    globalThis.location.assign('/dashboard');
  };
  return (
    <>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="top">
        <div className="where">
          <Link href="/" className="brand">
            <Sign />
            plinth
          </Link>
        </div>
        <nav aria-label="Platform">
          <button type="button" className="find" onClick={() => setOpened('palette')}>
            <Icon name="search" />
            Find <kbd>Ctrl K</kbd>
          </button>
          <a href="/docs">API</a>
          <Link href="/account" className="account" title="Account">
            <span className="muted address">{email}</span>
            <span className="short">Account</span>
          </Link>
          <button type="button" className="quiet" onClick={() => void signOut()}>
            Sign out
          </button>
        </nav>
      </header>
      {children}
      <Suspense>
        {opened === 'palette' && <Palette onClose={() => setOpened(null)} />}
        {opened === 'keys' && <KeysDialog onClose={() => setOpened(null)} />}
      </Suspense>
    </>
  );
};
