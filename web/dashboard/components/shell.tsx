import { useIsFetching, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, Suspense, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../client/api.ts';
import { forgetKept } from '../client/kept.ts';
import { part } from '../client/part.ts';
import { Icon } from './icon.tsx';
import { TopBar } from './top-bar.tsx';

const Palette = part(async () => (await import('./palette.tsx')).Palette);
const KeysDialog = part(async () => (await import('./palette.tsx')).KeysDialog);
const SignOutDialog = part(async () => (await import('./sign-out.tsx')).SignOutDialog);

type Opened = 'palette' | 'keys' | 'sign-out' | null;

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

/** Says that something is on its way of which nothing is there yet. */
const Loading = () => {
  const missing = useIsFetching({ predicate: ({ state }) => state.data === undefined });
  return missing > 0 ? <progress className="loading-bar" aria-label="Loading" /> : null;
};

/** The bar on top, and the page below it. */
export const Shell = ({ email, children }: { readonly email: string; readonly children: ReactNode }) => {
  const queries = useQueryClient();
  const [opened, setOpened] = useState<Opened>(null);
  useKeys(setOpened);
  const signOut = async (): Promise<void> => {
    await call('DELETE /dashboard/session', {});
    queries.clear();
    forgetKept();
    globalThis.location.assign('/dashboard');
  };
  const askToSignOut = async (): Promise<void> => {
    const { unsavedWords } = await import('./sign-out.tsx');
    if (unsavedWords().length > 0) setOpened('sign-out');
    else await signOut();
  };
  return (
    <>
      <TopBar brand="plinth" label="Platform">
        <Loading />
        <button type="button" className="find" onClick={() => setOpened('palette')}>
          <Icon name="search" />
          Find <kbd>Ctrl K</kbd>
        </button>
        <a href="/docs">API</a>
        <Link href="/account" className="account" title="Account">
          <span className="muted address">{email}</span>
          <span className="short">Account</span>
        </Link>
        <button type="button" className="quiet" onClick={() => void askToSignOut()}>
          Sign out
        </button>
      </TopBar>
      {children}
      <Suspense>
        {opened === 'palette' && <Palette onClose={() => setOpened(null)} />}
        {opened === 'keys' && <KeysDialog onClose={() => setOpened(null)} />}
        {opened === 'sign-out' && <SignOutDialog onConfirm={() => void signOut()} onClose={() => setOpened(null)} />}
      </Suspense>
    </>
  );
};
