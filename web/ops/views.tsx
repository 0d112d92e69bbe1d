import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, Suspense, lazy, useRef } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { Boundary } from '../dashboard/components/boundary.tsx';
import { Navigation } from '../dashboard/components/navigation.tsx';
import { TopBar } from '../dashboard/components/top-bar.tsx';
import { call } from './client/api.ts';
import { LiveContext, useLive, useLiveStream } from './client/live.ts';
import { announce } from './client/announce.ts';
import { Heading, VisitedContext } from './components/heading.tsx';
import { Notices } from './components/notices.tsx';

const OverviewPage = lazy(async () => ({ default: (await import('./pages/overview.tsx')).OverviewPage }));
const ProjectsPage = lazy(async () => ({ default: (await import('./pages/projects.tsx')).ProjectsPage }));
const JobsPage = lazy(async () => ({ default: (await import('./pages/jobs.tsx')).JobsPage }));
const JobPage = lazy(async () => ({ default: (await import('./pages/job.tsx')).JobPage }));
const DeadPage = lazy(async () => ({ default: (await import('./pages/dead.tsx')).DeadPage }));
const WorkersPage = lazy(async () => ({ default: (await import('./pages/workers.tsx')).WorkersPage }));
const CronPage = lazy(async () => ({ default: (await import('./pages/cron.tsx')).CronPage }));
const MailsPage = lazy(async () => ({ default: (await import('./pages/mails.tsx')).MailsPage }));
const MailPage = lazy(async () => ({ default: (await import('./pages/mail.tsx')).MailPage }));

const links = [
  { href: '/', label: 'Overview', icon: 'home' },
  { href: '/projects', label: 'Projects', icon: 'storage' },
  { href: '/jobs', label: 'Jobs', icon: 'jobs' },
  { href: '/dead', label: 'Dead letters', icon: 'logs' },
  { href: '/workers', label: 'Workers', icon: 'functions' },
  { href: '/cron', label: 'Cron', icon: 'clock' },
  { href: '/mail', label: 'Mail', icon: 'mail' },
] as const;

const SideBar = () => {
  const [here] = useLocation();
  const isCurrent = (href: string): boolean => (href === '/' ? here === '/' : `${here}/`.startsWith(`${href}/`));
  return (
    <Navigation
      name="Views"
      groups={[{ label: '', links: links.map((link) => ({ ...link, isCurrent: isCurrent(link.href) })) }]}
    />
  );
};

const stateWords = { live: 'live', connecting: 'connecting', lost: 'reconnecting', trouble: 'no database' } as const;

const Pulse = () => {
  const { state } = useLive();
  return (
    <span className="pulse" data-state={state} title={stateWords[state]}>
      <span className="dot" aria-hidden="true" />
      <span className="words">{stateWords[state]}</span>
    </span>
  );
};

const SignOut = () => {
  const queries = useQueryClient();
  const signOut = async (): Promise<void> => {
    await call('DELETE /ops/session', {}).catch(() => undefined);
    await queries.resetQueries();
    announce('Signed out.');
  };
  return (
    <button type="button" className="quiet" onClick={() => void signOut()}>
      Sign out
    </button>
  );
};

const Pages = (): ReactNode => (
  <Boundary resetBy={useLocation()[0]}>
    <Suspense fallback={<p className="loading">Loading…</p>}>
      <Switch>
        <Route path="/" component={OverviewPage} />
        <Route path="/projects" component={ProjectsPage} />
        <Route path="/jobs" component={JobsPage} />
        <Route path="/jobs/:id">{({ id }) => <JobPage key={id} id={id} />}</Route>
        <Route path="/dead" component={DeadPage} />
        <Route path="/workers" component={WorkersPage} />
        <Route path="/cron" component={CronPage} />
        <Route path="/mail" component={MailsPage} />
        <Route path="/mail/:id">{({ id }) => <MailPage key={id} id={id} />}</Route>
        <Route>
          <Heading title="Not found" />
          <p className="empty">There is no such view.</p>
        </Route>
      </Switch>
    </Suspense>
  </Boundary>
);

/** A new snapshot renders only what uses it. */
const LiveProvider = ({ children }: { readonly children: ReactNode }) => (
  <LiveContext value={useLiveStream()}>{children}</LiveContext>
);

/** All views, with what is live above them. */
export const Views = () => (
  <LiveProvider>
    <VisitedContext value={useRef(false)}>
      <TopBar
        brand={
          <>
            plinth <span className="muted">operations</span>
          </>
        }
        label="Platform"
      >
        <Pulse />
        <a href="/ops/bullmq">BullMQ</a>
        <a href="/docs">API</a>
        <SignOut />
      </TopBar>
      <div className="with-areas">
        <SideBar />
        <main id="content">
          <Notices />
          <Pages />
        </main>
      </div>
    </VisitedContext>
  </LiveProvider>
);
